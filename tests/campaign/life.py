"""The life of one driver process: a warm session, then what it is told; says on its socket what happens.

told    {"do": "go", "checkpoints": folder}   run the job, and start it again whenever a restart is the remedy
        {"do": "stop"}                        stop the job cleanly, then wait for the next word
        {"do": "end"}                         end the session and the process
says    ready, started, failed, refused, stopped   with what belongs to it
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
from importlib import import_module
from typing import Any

from pyspark.sql import SparkSession

from tests.campaign.places import DELIVERY, PROGRAM, Places
from tidegate import Job, JobHandle, TidegateError
from tidegate.core.errors import Code
from tidegate.core.next_steps import Remedy

_LOOK_SECONDS = 0.01
_FAILURES_AT_MOST = 8
"""In a row, without an epoch done in between."""
_SERVER_SECONDS = 3.0
"""Before the next start, when the server of a sink was down."""


class Life:
    """One driver process, from its warm session to its end."""

    def __init__(self, number: int, places: Places) -> None:
        self._places = places
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(places.commands))
        self._heard = b""
        self._jobs: dict[str, Job] = {}
        self._program: Any = import_module(os.environ[PROGRAM])
        self._session = self._program.open_session(places)
        _warm(self._session)
        self._jvm = jvm_of(self._session)
        self._say(event="ready", number=number, process=os.getpid(), jvm=self._jvm.pid, application=self._application())

    def live(self) -> None:
        """Do what is told until the end."""
        while (command := self._hear(None))["do"] == "go":
            self._go(command["checkpoints"])
        self._session.stop()

    def _go(self, checkpoints: str) -> None:
        failures = 0
        while failures < _FAILURES_AT_MOST:
            handle: JobHandle | None = None
            try:
                handle = self._start(checkpoints)
                if self._told_to_stop(handle):
                    handle.stop()
                    self._say(event="stopped", **_figures(handle))
                    return
                handle.wait()
            except Exception as error:  # noqa: BLE001 (said, and judged by who listens)
                failures = 1 if handle is not None and _moved(handle) else failures + 1
                code = error.code if isinstance(error, TidegateError) else type(error).__name__
                again = _may_start_again(error)
                figures = {} if handle is None else _figures(handle)
                self._say(event="failed" if again else "refused", code=code, text=str(error)[:2000], **figures)
                if self._jvm_is_gone():
                    os._exit(4)
                if not again:
                    return
                if code == Code.SINK_UNUSABLE.label:
                    time.sleep(_SERVER_SECONDS)
        self._say(event="refused", code="too many failures", text="")

    def _application(self) -> str:
        application = self._session.sparkContext.applicationId
        assert application is not None
        return application

    def _jvm_is_gone(self) -> bool:
        """Whether the JVM has died, or is dying: its port refuses first, its process ends when its memory is freed."""
        if self._jvm.poll() is not None:
            return True
        gateway: Any = self._session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
        try:
            socket.create_connection(("127.0.0.1", gateway.java_parameters.port)).close()
        except ConnectionRefusedError:
            return True
        return False

    def _start(self, checkpoints: str) -> JobHandle:
        if checkpoints not in self._jobs or DELIVERY in os.environ:  # at-most-once begins where it is declared
            self._jobs[checkpoints] = self._program.build_job(self._session, self._places, checkpoints)
        handle = self._jobs[checkpoints].start()
        self._say(event="started")
        return handle

    def _told_to_stop(self, handle: JobHandle) -> bool:
        """Wait until the job has ended (False) or a stop is asked for (True)."""
        while handle.status().running:
            if self._hear(_LOOK_SECONDS).get("do") == "stop":
                return True
        return False

    def _hear(self, timeout_seconds: float | None) -> dict[str, Any]:
        """The next command; {} at the timeout. The process ends when nobody is there to tell it anything."""
        while b"\n" not in self._heard:
            if not select.select([self._socket], [], [], timeout_seconds)[0]:
                return {}
            heard = self._socket.recv(65536)
            if not heard:
                os._exit(3)
            self._heard += heard
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def _say(self, **what: object) -> None:
        self._socket.sendall(json.dumps(what).encode() + b"\n")


def jvm_of(session: SparkSession) -> Any:
    """The process of the session's JVM, as its starter holds it."""
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    return gateway.proc


def _warm(session: SparkSession) -> None:
    """Load what the first epoch would load, while nobody waits for it."""
    rows = session.range(4, numPartitions=2).selectExpr("named_struct('id', id) as channel")
    rows.groupBy("channel.id").count().mapInArrow(_unchanged, "id long, count long").collect()


def _unchanged(batches: Any) -> Any:
    yield from batches


def _may_start_again(error: Exception) -> bool:
    """Errors that the strikes raise, or that a restart cures; a refusal is for the one who listens. The server of a
    store that was struck is down for some seconds."""
    if not isinstance(error, TidegateError):
        return True
    return error.catalogue_entry.remedy is Remedy.RESTART or error.catalogue_entry is Code.SINK_UNUSABLE


def _moved(handle: JobHandle) -> bool:
    return any(query.epochs for query in handle.status().queries)


def _figures(handle: JobHandle) -> dict[str, int]:
    queries = handle.status().queries
    return {"aborted": sum(each.aborted for each in queries), "redone": sum(each.redone for each in queries)}
