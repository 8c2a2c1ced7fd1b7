"""A request that comes when the last driver has failed and the next one has not begun: no process of this machine knows
of a restart by YARN, or by a supervisor elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace

import msgspec
import pytest

from tests.formats.test_written import BEAT, FAILURE
from tests.simulation.openers_memory import in_memory
from tidegate.checkpoints.succession import begin_job
from tidegate.core.records import JobRecord
from tidegate.operate.asking import Asking, RequestOrder, RequestStep, Stage
from tidegate.operate.beat import JobState, write_beat
from tidegate.operate.control import Answer, Kind, Outcome
from tidegate.operate.failures import add_failure
from tidegate.storages.schemes import Folder
from tidegate.testing.memory_storage import Memory

FOLDER = Folder.of("s3://bucket/wordcount")
ORDER = RequestOrder(kind=Kind.STOP, id="one")


@pytest.fixture(autouse=True)
def job() -> Generator[None]:
    """Its driver has begun a minute ago, and failed since."""
    with in_memory(Memory()):
        begin_job(FOLDER, JobRecord(name="wordcount", job_id="0f1e2d3c", generation=1))
        yield


def fails(*, pause: float | None, ago: float = 1.0, state: JobState = JobState.FAILED, began_ago: float = 60.0) -> None:
    now = time.time()
    write_beat(FOLDER, msgspec.structs.replace(BEAT, state=state, started_at=now - began_ago, at=now))
    add_failure(FOLDER, msgspec.structs.replace(FAILURE, at=now - ago, restart_in_seconds=pause))


def first_step(order: RequestOrder) -> RequestStep | Answer:
    try:
        return next(Asking(FOLDER, order).steps())
    except StopIteration as ended:
        return ended.value


@pytest.mark.parametrize("kind", [Kind.STOP, Kind.CANCEL, Kind.SAVEPOINT])
def test_it_waits_for_the_next_driver(kind: Kind) -> None:
    fails(pause=30.0)
    found = first_step(replace(ORDER, kind=kind))
    assert isinstance(found, RequestStep)
    assert (found.stage, found.waits_for) == (Stage.UNASKED, "the job's next start")


@pytest.mark.parametrize(
    ("pause", "ago", "state", "began_ago"),
    [
        (None, 1.0, JobState.FAILED, 60.0),  # given up
        (30.0, 200.0, JobState.FAILED, 300.0),  # YARN has started none
        (1.0, 10.0, JobState.STOPPED, 60.0),  # a query failed, and ran again until the stop
        (1.0, 10.0, JobState.FAILED, 5.0),  # the next driver has come
    ],
)
def test_it_does_not_wait_where_none_follows(
    pause: float | None, ago: float, state: JobState, began_ago: float
) -> None:
    fails(pause=pause, ago=ago, state=state, began_ago=began_ago)
    found = first_step(ORDER)
    assert isinstance(found, Answer)
    assert found.outcome is Outcome.NOT_RUNNING
