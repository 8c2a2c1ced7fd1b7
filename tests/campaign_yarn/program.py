"""The program of the campaign inside YARN: each attempt says on the campaign's socket what happens, and obeys it.

Argument: the campaign's folder.

told    {"do": "go"}                     run the job until it ends
        {"do": "stop"}                   stop the job cleanly, and end
says    ready, started, stopped, ended   with what belongs to it
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from pathlib import Path
from typing import Any

from tests.campaign.places import Places
from tests.campaign.program import build_job, open_session
from tidegate import JobHandle

_LOOK_SECONDS = 0.05


class Attempt:
    """One driver, from its session to its end. YARN starts the next one if it does not end well."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._session = open_session(places)
        self._heard = b""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(places.commands))
        self._say(
            event="ready",
            process=os.getpid(),
            jvm=os.getppid(),  # Spark's application master, which has started this Python
            application=self._session.sparkContext.applicationId,
            container=os.environ["CONTAINER_ID"],
        )

    def live(self) -> None:
        while self._hear(None).get("do") != "go":
            pass
        handle: JobHandle | None = None
        try:
            handle = build_job(self._session, self._places, str(self._places.job.parent)).start()
            self._say(event="started")
            if self._told_to_stop(handle):
                handle.stop()
                self._say(event="stopped", **_figures(handle))
            else:
                handle.wait()
        except BaseException as error:
            self._say(event="ended", text=str(error)[:2000], **({} if handle is None else _figures(handle)))
            raise

    def _told_to_stop(self, handle: JobHandle) -> bool:
        """Wait until the job has ended (False) or a stop is asked for (True)."""
        while handle.status().running:
            if self._hear(_LOOK_SECONDS).get("do") == "stop":
                return True
        return False

    def _hear(self, timeout_seconds: float | None) -> dict[str, Any]:
        """The next command; {} at the timeout."""
        while b"\n" not in self._heard:
            if not select.select([self._socket], [], [], timeout_seconds)[0]:
                return {}
            heard = self._socket.recv(65536)
            if not heard:
                raise EOFError("the campaign has ended")
            self._heard += heard
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def _say(self, **what: object) -> None:
        self._socket.sendall(json.dumps(what).encode() + b"\n")


def _figures(handle: JobHandle) -> dict[str, int]:
    queries = handle.status().queries
    return {"aborted": sum(each.aborted for each in queries), "redone": sum(each.redone for each in queries)}


if __name__ == "__main__":
    Attempt(Places(Path(sys.argv[1]))).live()
