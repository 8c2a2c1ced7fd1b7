"""A job that is asked to stop and to be cancelled at the same time, by two threads."""

from __future__ import annotations

import threading
from typing import cast

from pyspark.sql import SparkSession

from tidegate.operate.beat import JobState
from tidegate.spark.handle import Ending, JobHandle


def test_a_cancel_that_comes_within_a_stop_is_not_turned_into_one():
    handle = SlowHandle()
    stop = threading.Thread(target=handle.ask_to_stop, name="stop")
    cancel = threading.Thread(target=handle.ask_to_cancel, name="cancel")
    stop.start()
    assert handle.looked.wait(10)
    cancel.start()
    for each in (cancel, stop):
        each.join(10)
    assert handle.end_state(None) is JobState.CANCELED


class SlowHandle(JobHandle):
    """A handle whose stop looks at how the job is to end, and then takes long, if nobody waits for it."""

    def __init__(self) -> None:
        self.looked = threading.Event()
        self.cancelled = threading.Event()
        super().__init__(
            name="job",
            session=cast("SparkSession", None),
            plans=[],
            interval_seconds=0,
            bounded=False,
            stop_timeout_seconds=60,
            tolerable_failures=0,
            runs_due_epoch=False,
            companions=(),
            pause_after=None,
        )

    @property
    def _ending(self) -> Ending:  # pyright: ignore[reportIncompatibleVariableOverride]
        found = self._how
        if threading.current_thread().name == "stop":
            self.looked.set()
            self.cancelled.wait(0.3)
        return found

    @_ending.setter
    def _ending(self, ending: Ending) -> None:
        self._how = ending
        if ending is Ending.CANCEL:
            self.cancelled.set()
