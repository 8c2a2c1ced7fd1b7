"""What takes the savepoints of a job that stands still with epochs 0 to 3 done, and can be held up at each step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.saved_job import running, write_job
from tidegate.core.errors import TidegateError
from tidegate.spark.savepointing import SavepointTaker

BOUND_SECONDS = 30.0


def savepoints(folder: Path, reach: Callable[[str], None] = lambda _step: None) -> SavepointTaker:
    """Of the job `folder/job`; they go to `folder/saved`."""
    write_job(folder / "job")
    return SavepointTaker(running(folder / "job", reach), str(folder / "saved"))


class Gate:
    """Holds up a take at one step, as a disk does that does not answer."""

    def __init__(self, step: str) -> None:
        self._step = step
        self.arrived = threading.Event()
        self.opened = threading.Event()

    def reach(self, step: str) -> None:
        if step == self._step and not self.opened.is_set():
            self.arrived.set()
            assert self.opened.wait(BOUND_SECONDS)


def error_of(call: Callable[[], object]) -> BaseException:
    """What `call` raises."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001 (what a test looks at)
        return error
    raise AssertionError("nothing was raised")


def code_of(call: Callable[[], object]) -> str:
    """The code of the TidegateError that `call` raises."""
    error = error_of(call)
    assert isinstance(error, TidegateError), error
    return error.code
