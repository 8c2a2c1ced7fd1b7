"""A companion with a thread: what it does when the driver has lost its lease."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, cast

import pytest

from tidegate.core.errors import TidegateError
from tidegate.spark.clearing import Clearing
from tidegate.spark.ticking import Ticking
from tidegate.storages.refusals import lease_lost

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


class Outcome:
    has_given_up_its_checkpoints = True


class LeasedJob:
    """As much of a job as these companions ask for."""

    outcome = Outcome()

    def __init__(self) -> None:
        self.loss: TidegateError | None = None

    def lost_lease(self) -> TidegateError | None:
        return self.loss


class Notes(Ticking):
    """Its ticks wait until `may_end`, as in a storage that does not answer."""

    def __init__(self) -> None:
        super().__init__("note", 0.01)
        self.done: list[str] = []
        self.waits, self.may_end = threading.Event(), threading.Event()

    def begin(self, handle: LiveJob) -> None:
        self.done.append("begin")

    def tick(self) -> None:
        self.waits.set()
        self.may_end.wait(60)

    def last(self, error: BaseException | None) -> None:
        self.done.append("last")


@pytest.fixture
def job() -> LeasedJob:
    return LeasedJob()


def opened(notes: Notes, job: LeasedJob) -> None:
    notes.opening(cast("LiveJob", job))
    assert notes.waits.wait(60)


def test_a_driver_that_has_lost_its_lease_writes_no_last_note_and_waits_for_no_storage(job: LeasedJob) -> None:
    notes = Notes()
    opened(notes, job)
    job.loss = lease_lost("words", "a newer term exists", "lease")
    begin = time.monotonic()
    notes.ended(None)
    assert time.monotonic() - begin < 30
    assert notes.done == ["begin"]
    notes.may_end.set()


def test_a_lease_that_is_lost_during_the_wait_for_a_tick_ends_the_wait(job: LeasedJob) -> None:
    notes = Notes()
    opened(notes, job)
    ends = threading.Thread(target=notes.ended, args=(None,), daemon=True)
    ends.start()
    ends.join(0.3)
    assert ends.is_alive()
    job.loss = lease_lost("words", "a newer term exists", "lease")
    ends.join(30)
    assert not ends.is_alive()
    assert notes.done == ["begin"]
    notes.may_end.set()


def test_the_holder_of_the_lease_writes_its_last_note_when_the_tick_has_ended(job: LeasedJob) -> None:
    notes = Notes()
    opened(notes, job)
    notes.may_end.set()
    notes.ended(None)
    assert notes.done == ["begin", "last"]


def test_a_canceled_job_that_has_lost_its_lease_deletes_no_checkpoints_of_its_successor(job: LeasedJob) -> None:
    deleted: list[str] = []
    clearing = Clearing(lambda: deleted.append("checkpoints"))
    clearing.opening(cast("LiveJob", job))
    job.loss = lease_lost("words", "a newer term exists", "lease")
    with pytest.raises(TidegateError, match="a newer term exists"):
        clearing.ended(None)
    assert deleted == []
