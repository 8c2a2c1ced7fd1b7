"""When a second driver is started, taken, and started again: the supervisor's decisions, with drivers that are no
processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.operate.beat import Beat, JobState, QueryBeat
from tidegate.operate.reports import report_of
from tidegate.supervise.line import CannotTakeOver, Finished, FromDriver, FromSupervisor, Moved, Ready, TakeOver
from tidegate.supervise.news import News
from tidegate.supervise.standby import Standby, is_time, pause_after

_NO_PROCESS = 1 << 23
"""Above every number that Linux gives a process."""


@dataclass
class FakeDriver:
    process: int
    line: object = None
    messages: list[FromDriver] = field(default_factory=list[FromDriver])
    told: list[FromSupervisor] = field(default_factory=list[FromSupervisor])
    returned: int | None = None
    closed: list[float | None] = field(default_factory=list["float | None"])

    def has_ended(self) -> bool:
        return self.returned is not None

    def said(self) -> list[FromDriver]:
        said, self.messages = self.messages, []
        return said

    def tell(self, message: FromSupervisor) -> None:
        self.told.append(message)

    def kill(self) -> None:
        self.returned = -9

    def close(self, grace_seconds: float | None = None) -> list[int]:
        self.closed.append(grace_seconds)
        return []


@dataclass
class Heard(News):
    ready: list[int] = field(default_factory=list[int])
    taken: list[int] = field(default_factory=list[int])
    lost: list[str] = field(default_factory=list[str])

    def standby_ready(self, process: int, memory: int) -> None:
        self.ready.append(process)

    def standby_takes_over(self, process: int) -> None:
        self.taken.append(process)

    def standby_lost(self, why: str) -> None:
        self.lost.append(why)


class Held:
    """A standby under test, what it has started and said, and its clock."""

    def __init__(self) -> None:
        self.news = Heard()
        self.started: list[FakeDriver] = []
        self.now = 100.0
        self.standby = Standby(self._start, self.news, lambda: self.now)
        self.standby.wanted = True

    def _start(self) -> FakeDriver:
        self.started.append(FakeDriver(_NO_PROCESS + len(self.started)))
        return self.started[-1]

    @property
    def newest(self) -> FakeDriver:
        return self.started[-1]

    def look(self, *, may_start: bool = True, after: float = 1.0) -> None:
        self.now += after
        self.standby.look(may_start=may_start)

    def become_ready(self) -> FakeDriver:
        self.look()
        self.newest.messages.append(Ready())
        self.look()
        return self.newest


@pytest.fixture
def held() -> Held:
    return Held()


def test_a_standby_is_started_once_and_says_that_it_is_ready(held: Held):
    held.look(may_start=False)
    assert held.started == []
    driver = held.become_ready()
    held.look()
    assert len(held.started) == 1
    assert held.news.ready == [driver.process]


def test_without_the_setting_there_is_none(held: Held):
    held.standby.wanted = False
    held.look()
    assert held.started == []


def test_a_ready_standby_becomes_the_driver_and_another_one_is_started_later(held: Held):
    driver = held.become_ready()
    assert held.standby.take() is driver
    assert driver.told == [TakeOver()]
    assert held.news.taken == [driver.process]
    held.look(may_start=False)
    assert held.standby.take() is None
    held.look()
    assert len(held.started) == 2


def test_a_standby_that_still_starts_becomes_the_driver_too(held: Held):
    """It is further than a new process would be."""
    held.look()
    assert held.standby.take() is held.newest
    assert held.newest.told == [TakeOver()]


def test_a_standby_that_has_died_takes_over_nothing(held: Held):
    held.become_ready().kill()
    assert held.standby.take() is None
    assert held.newest.told == []


def test_a_standby_that_dies_is_said_once_and_started_again_with_growing_pauses(held: Held):
    times: list[float] = []
    for number in range(1, 5):
        while len(held.started) < number:
            held.look()
        times.append(held.now)
        held.newest.kill()
        held.look()
        assert len(held.news.lost) == number
        assert "signal 9 (SIGKILL)" in held.news.lost[-1]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 10
    assert pauses[2] >= 40
    assert all(driver.closed == [0.0] for driver in held.started[:-1]), "and nothing of it is left"


def test_the_pause_has_a_bound():
    assert [pause_after(deaths) for deaths in (1, 2, 3, 100)] == [10.0, 20.0, 40.0, 600.0]


def test_a_standby_that_stood_ready_for_long_counts_anew(held: Held):
    for _ in range(2):
        held.become_ready().kill()
        held.look()
        held.look(after=30)
    held.look()
    assert len(held.started) == 3
    held.newest.messages.append(Ready())
    held.look()
    held.look(after=1000)
    held.newest.kill()
    held.look()
    held.look(after=11)
    held.look()
    assert len(held.started) == 4


def test_the_error_of_its_program_is_said(held: Held):
    held.look()
    error = TidegateError(Code.PROGRAM_FAILED, expected="a program", found="a port in use", where="p", next_step="n")
    held.newest.messages.append(Finished(report=report_of(error)))
    held.newest.returned = 1
    held.look()
    assert "a port in use" in held.news.lost[0]
    assert "\n" not in held.news.lost[0], "one line"


def test_a_program_that_cannot_have_a_standby_gets_no_other_one(held: Held):
    held.look()
    held.newest.messages.append(CannotTakeOver("query q reads a table that cannot be asked again"))
    for _ in range(20):
        held.look(after=100)
    assert len(held.started) == 1
    assert held.newest.returned == -9
    assert len(held.news.lost) == 1
    assert "cannot be asked again" in held.news.lost[0]


def test_a_standby_that_does_not_get_ready_is_ended(held: Held):
    held.standby.progress_timeout = 60.0
    held.look()
    for step in range(100):
        held.newest.messages.append(Moved(str(step)))
        held.look()
    assert held.newest.returned is None, "it moves"
    for _ in range(70):
        held.look()
    assert held.started[0].returned == -9
    assert len(held.news.lost) == 1


def test_the_end_of_the_job_ends_the_standby_without_a_word(held: Held):
    driver = held.become_ready()
    held.standby.end()
    for _ in range(50):
        held.look()
    held.standby.close(3.0)
    assert (driver.returned, len(held.started), held.news.lost) == (-9, 1, [])
    assert len(driver.closed) == 1


# --- the time of the next one ------------------------------------------------------------------------------


def beat(epoch: int, finished: int, last_done_at: float | None, state: JobState = JobState.RUNNING) -> Beat:
    query = QueryBeat(
        uid="q", run=1, epoch=epoch, finished=finished, rows=0, rows_per_second=0.0, last_done_at=last_done_at
    )
    return Beat(
        job="j", job_id="", state=state, host="h", process=1, started_at=1.0, at=1.0, progress_at=1.0, queries=(query,)
    )


@pytest.mark.parametrize(
    ("newest", "now", "expected"),
    [
        (None, 1000.0, False),
        (beat(5, 4, None), 1000.0, False),
        (beat(5, 4, 99.0), 1000.0, False),
        (beat(5, 5, 101.0), 102.0, True),
        (beat(4, 4, None), 102.0, False),
        (beat(4, 4, None), 111.0, True),
        (beat(5, 5, 101.0, JobState.FINISHED), 102.0, False),
    ],
    ids=["no beat", "computes", "an epoch of recovery", "a new epoch", "not yet", "nothing to do", "has ended"],
)
def test_a_standby_starts_after_the_first_new_epoch_or_if_there_is_nothing_to_do(
    newest: Beat | None, now: float, expected: bool
):
    assert is_time(newest, 100.0, now) is expected
    assert not is_time(newest, None, now), "the queries do not run yet"
