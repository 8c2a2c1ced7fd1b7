"""Holds a second driver ready: it has run the program up to the start of its job, and takes over when the first one
dies.

A standby holds nothing of the job, so it may die at any time, and is ended by SIGKILL.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, Protocol, TypeVar

from tidegate.operate.beat import Beat, JobState
from tidegate.operate.reports import ended_by
from tidegate.supervise.line import CannotTakeOver, Finished, FromDriver, FromSupervisor, Ready, TakeOver
from tidegate.supervise.news import News
from tidegate.supervise.progress import ProgressWatch
from tidegate.supervise.session_processes import memory_of

STANDBY = "TIDEGATE_STANDBY"
"""The environment variable that makes a new process a standby. The process removes it, for its own children."""


class StandbyDriver(Protocol):
    """The process of a driver, as a standby uses it."""

    @property
    def process(self) -> int: ...

    @property
    def returned(self) -> int | None: ...

    def has_ended(self) -> bool: ...

    def said(self) -> list[FromDriver]: ...

    def tell(self, message: FromSupervisor) -> None: ...

    def kill(self) -> None: ...

    def close(self, grace_seconds: float | None = None) -> list[int]: ...


DriverT = TypeVar("DriverT", bound=StandbyDriver)


class _StandbyStage(Enum):
    """What the process of the standby does."""

    NONE = "there is none"
    STARTING = "it runs the program up to its job"
    READY = "it waits"
    LEAVING = "it has died, and its JVM removes its files"


class Standby(Generic[DriverT]):
    """The second driver of one supervisor. `wanted`: the job's setting `restart.standby`. `progress_timeout`: the job's
    setting of this name. `clock`: seconds that never go back.
    """

    def __init__(self, start: Callable[[], DriverT], news: News, clock: Callable[[], float]) -> None:
        self.wanted = False
        self.progress_timeout = 0.0
        self._start = start
        self._news = news
        self._clock = clock
        self._driver: DriverT | None = None
        self._stage = _StandbyStage.NONE
        self._since = 0.0
        self._next_start = 0.0
        self._deaths = 0
        self._watch = ProgressWatch(0.0, 0.0)
        self._why = ""

    @property
    def waits_for(self) -> DriverT | None:
        """The process whose messages the next `look` reads; None if there is none."""
        return self._driver if self._stage in (_StandbyStage.STARTING, _StandbyStage.READY) else None

    def look(self, *, may_start: bool) -> None:
        """Read the messages of the standby, notice its death, and start one if there is none. Call it about once a
        second. `may_start`: the result of `is_time` now.
        """
        now = self._clock()
        driver = self._driver
        if driver is None:
            if self.wanted and may_start and now >= self._next_start:
                self._begin(now)
        elif self._stage is _StandbyStage.LEAVING:
            if now >= self._since + _LEAVING_SECONDS:
                driver.close(0.0)
                self._driver, self._stage = None, _StandbyStage.NONE
        else:
            self._listen(driver, now)
            if self._stage is _StandbyStage.STARTING and self._watch.look(None, now):
                self._why = "its start made no progress"
                driver.kill()
            if driver.has_ended():
                self._died(driver, now)

    def take(self) -> DriverT | None:
        """Make the standby the driver. It takes over at once, or as soon as it has come to the start of its job. None
        if there is no living standby.
        """
        self.look(may_start=False)
        driver = self.waits_for
        if driver is None:
            return None
        self._driver, self._stage, self._deaths = None, _StandbyStage.NONE, 0
        driver.tell(TakeOver())
        self._news.standby_takes_over(driver.process)
        return driver

    def end(self) -> None:
        """The job is to end: end the standby, and start no other one."""
        self.wanted = False
        driver = self.waits_for
        if driver is not None:
            driver.kill()
            self._leave(self._clock())

    def close(self, grace_seconds: float | None = None) -> None:
        """End the standby and all its processes, after at most `grace_seconds` for its JVM."""
        self.end()
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close(grace_seconds)

    def _begin(self, now: float) -> None:
        self._driver, self._stage, self._since, self._why = self._start(), _StandbyStage.STARTING, now, ""
        self._watch = ProgressWatch(self.progress_timeout, now)

    def _listen(self, driver: DriverT, now: float) -> None:
        for message in driver.said():
            self._watch.heard()
            match message:
                case Ready():
                    self._stage, self._since = _StandbyStage.READY, now
                    self._news.standby_ready(driver.process, memory_of(driver.process))
                case CannotTakeOver(why):
                    self.end()
                    self._news.standby_lost(f"this job can have no standby: {why}")
                case Finished(report=report):
                    what = "its program has ended before its job" if report is None else report.what
                    self._why = " ".join(what.split())
                case _:
                    pass

    def _died(self, driver: DriverT, now: float) -> None:
        if self._stage is _StandbyStage.LEAVING:
            return
        if self._stage is _StandbyStage.READY and now - self._since >= _LONG_READY_SECONDS:
            self._deaths = 0
        self._deaths += 1
        pause = pause_after(self._deaths)
        self._next_start = now + pause
        self._leave(now)
        why = self._why or ended_by(driver.returned)
        self._news.standby_lost(f"the standby has died, and the job runs on; the next one in {pause:.0f} s: {why}")

    def _leave(self, now: float) -> None:
        self._stage, self._since = _StandbyStage.LEAVING, now


def is_time(beat: Beat | None, runs_since: float | None, now: float) -> bool:
    """True if a standby may start: its start must not compete with that of the driver.

    An epoch was done since every query runs, or for some seconds there was no input for one. `beat`: the newest beat of
    the driver. `runs_since`: when its queries began to run, None before. All times are seconds since 1970.
    """
    if beat is None or runs_since is None or beat.state is not JobState.RUNNING:
        return False
    if any(query.last_done_at is not None and query.last_done_at >= runs_since for query in beat.queries):
        return True
    return now - runs_since >= _IDLE_SECONDS and all(query.epoch <= query.finished for query in beat.queries)


def pause_after(deaths: int) -> float:
    """Seconds from the death of a standby to the start of the next one, after so many deaths in a row."""
    return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(deaths - 1, _DOUBLED_AT_MOST), _LONGEST_PAUSE_SECONDS)


_IDLE_SECONDS = 10.0
_LEAVING_SECONDS = 3.0
"""A JVM ends 0.5 to 2.4 s after its Python, and removes its temporary files in that time."""
_FIRST_PAUSE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 600.0
_DOUBLED_AT_MOST = 16
_LONG_READY_SECONDS = 600.0
"""A standby that was ready for so long does not die of its start: the pauses begin anew."""
