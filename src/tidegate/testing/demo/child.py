"""Shared by the demo's driver programs: their folders, how they end, and the places where they wait to be killed."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import msgspec

from tidegate.testing.demo.places import Places

FOLDER = "DEMO_FOLDER"
RUN = "DEMO_RUN"
HOLD = "DEMO_HOLD"
"""`A@7`: the place where a program without failpoints waits; see `Child.pass_point`."""

SERVERS = "DEMO_SERVERS"
"""The brokers, where the demo runs with Kafka."""
POISON = "DEMO_POISON"
"""Set where the input has a record that a table refuses."""
JARS = "DEMO_JARS"
"""Spark's own Kafka connector, where the job without tidegate runs with Kafka."""

_GRACE_SECONDS = 30.0


class Child:
    """The driver program's side of the demo.

    The program ends when the process that started it closes its standard input.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.places = Places(Path(environment[FOLDER]))
        self.servers = environment.get(SERVERS, "")
        self.poisoned = POISON in environment
        self.jars = environment.get(JARS, "")
        self.told_to_end = threading.Event()
        self._run = int(environment[RUN])
        self._hold, _, epoch = environment.get(HOLD, "").partition("@")
        self._hold_epoch = int(epoch or 0)
        self._holding = count(1)
        threading.Thread(target=self._await_end, daemon=True).start()

    def report(self, figures: Mapping[str, int]) -> None:
        """Write the current figures; the process may be killed at any time."""
        path = self.places.figures(self._run)
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(figures))
        temporary.replace(path)

    def pass_point(self, point: str, epoch: int) -> None:
        """Wait forever if `DEMO_HOLD` names this place, and report that it was reached."""
        if point == self._hold and epoch >= self._hold_epoch:
            self.places.held(self._run, next(self._holding)).write_text(point, encoding="utf-8")
            threading.Event().wait()

    def _await_end(self) -> None:
        sys.stdin.read()
        self.told_to_end.set()
        time.sleep(_GRACE_SECONDS)  # held at a failpoint, it could not end by itself
        os._exit(1)
