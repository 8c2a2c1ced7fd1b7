"""The driver's end of the connection to its supervisor: it reports its job and failed queries, and obeys a stop.

If the supervisor ends in any way, the driver stops its job cleanly and ends: no process would restart it, and a second
`tidegate run` must find the job free.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, NoReturn

import msgspec

from tidegate.core.effects import Happening
from tidegate.core.errors import Code, TidegateError
from tidegate.core.telling import error_of
from tidegate.logs.last_word import show_errors_alone
from tidegate.operate.job_end import is_final
from tidegate.operate.reports import report_of
from tidegate.settings.config import Settings
from tidegate.storages.schemes import Folder
from tidegate.supervise.line import (
    CannotTakeOver,
    DriverLine,
    FailureReport,
    Finished,
    FromDriver,
    GoOn,
    Moved,
    QueryFailed,
    Ready,
    Refused,
    RestartQuery,
    Running,
    StartAnnounced,
    Stop,
    TakeOver,
)
from tidegate.supervise.restart import strategy_of
from tidegate.supervise.session_processes import end_processes

if TYPE_CHECKING:
    from tidegate.spark.live_job import FailedRun, SupervisedJob


class Role(Enum):
    """What the supervisor has started this process for."""

    DRIVER = "it drives the job"
    STANDBY = "it waits at the start of its job until it becomes the driver"


class Supervised:
    """The additional parts of a program under `tidegate run`."""

    def __init__(self, line: DriverLine, role: Role = Role.DRIVER) -> None:
        self.role = role
        self._line = line
        self._taken_over = threading.Event()
        self._answers: queue.SimpleQueue[GoOn | Refused | RestartQuery | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._job: str | None = None
        self._handle: SupervisedJob | None = None
        self._stop_timeout_seconds = 0.0
        self.failed_epochs: dict[str, int] = {}
        """By query, failed epochs in a row of the previous driver, which ended because of the last one."""
        self.resumes = ""
        """The id of the job that earlier drivers of this supervisor have run; empty if none has."""
        self._stopping = False
        self._reported: tuple[BaseException, FailureReport] | None = None
        self._asking = threading.Lock()
        self._alone = False
        self._saying = threading.Lock()
        self._steps = set[str]()
        self._running = False

    # --- reports of the job --------------------------------------------------------------------------------

    def define(self, job: str) -> None:
        """The program has declared a job. A second job of another name is refused, before anything is started."""
        if self._job not in (None, job):
            raise _job_count(f"two: {self._job} and {job}", "put each job into a program of its own")
        self._job = job

    def stand_by(self) -> None:
        """Wait until this standby becomes the driver. Raises KeyboardInterrupt if it is to end."""
        self._say(Ready())
        self.await_turn()
        self.role = Role.DRIVER

    def await_turn(self) -> None:
        """Wait until this process is to drive the job. Raises KeyboardInterrupt if it is to end."""
        self._taken_over.wait()
        if self._alone or self._stopping:
            raise KeyboardInterrupt

    @property
    def is_taken_over(self) -> bool:
        """True if this standby was told to become the driver, or is to end."""
        return self._taken_over.is_set()

    def cannot_take_over(self, why: str) -> NoReturn:
        """End this standby, because its declaration is out of date. The supervisor then starts an ordinary driver."""
        self._say(CannotTakeOver(why))
        raise SystemExit

    def declare(self, folder: Folder, settings: Settings, *, own_jvm: bool = False) -> None:
        """The job is about to start. `own_jvm`: tidegate has started the JVM.

        Raises SUPERVISOR_ALIVE if it belongs to another supervisor."""
        self._stop_timeout_seconds = settings.stop_timeout
        declared = StartAnnounced(
            job=self._job or "",
            folder=str(folder),
            strategy=strategy_of(settings),
            progress_timeout=settings.progress_timeout,
            stop_timeout=settings.stop_timeout,
            warm_up=settings.warm_up,
            standby=settings.restart_standby,
            own_jvm=own_jvm,
        )
        answer = self._ask(declared)
        if isinstance(answer, Refused):
            raise error_of(answer.error)
        if not isinstance(answer, GoOn):
            raise KeyboardInterrupt
        self.failed_epochs, self.resumes = answer.failed_epochs, answer.resumes

    def moves(self, step: str) -> None:
        """Report the progress of the start. Each step is reported once: a retry makes no progress."""
        if not self._running and step not in self._steps:
            self._steps.add(step)
            self._say(Moved(step))

    def starting(self, handle: SupervisedJob) -> None:
        """Recovery comes next: from here on a stop goes to the job's handle."""
        with self._lock:
            self._handle = handle

    def started(self, job_id: str) -> None:
        """Tell the supervisor that every query of this job runs."""
        self._running = True
        self._say(Running(job_id))

    def pause_after(self, run: FailedRun, error: TidegateError) -> float | None:
        """Called when a query has failed and its Spark session is alive.

        Returns the pause in seconds before its next run; None if the job is to end.
        """
        report = msgspec.structs.replace(report_of(error), **run.place())
        self._reported = (error, report)
        answer = self._ask(QueryFailed(report))
        return answer.pause if isinstance(answer, RestartQuery) else None

    # --- reports of the program ----------------------------------------------------------------------------

    def wait(self) -> None:
        """Wait for a job that still runs after the program's end. Raises the error of a failed job."""
        if self._handle is None:
            found = "none" if self._job is None else f"job {self._job}, which was not started"
            raise _job_count(found, "call `run()` or `start()` of the job")
        self._handle.wait()

    def ended(self, error: TidegateError | None, code: int) -> None:
        """The program's last report: the job's own error comes before an error that the program derived from it."""
        handle = self._handle
        asked = handle is not None and self._was_asked_to_end(handle)  # before this reads it, too
        if handle is not None:
            with suppress(BaseException):  # the job's error is read below
                handle.stop(self._stop_timeout_seconds)
        of_job = None if handle is None else handle.error()
        report = None if error is None else report_of(error)
        if handle is not None and of_job is not None:
            report = self._report(of_job, handle)
        ended_for_good = handle is not None and is_final(
            of_job, asked=asked, drain_goes_on=handle.outcome.leaves_a_drain
        )
        tolerated = handle is not None and of_job is not None and of_job is handle.tolerated
        failed = handle.failed_epochs() if handle is not None and tolerated else {}
        self._say(Finished(report=report, code=code, job_ended=ended_for_good, asked=asked, failed_epochs=failed))

    def _was_asked_to_end(self, handle: SupervisedJob) -> bool:
        """A stop that has only interrupted the program, while its job still runs, is for the job."""
        return handle.was_asked_to_end or (self._stopping and handle.status().running)

    def _report(self, error: BaseException, handle: SupervisedJob) -> FailureReport:
        if self._reported is not None and self._reported[0] is error:
            return self._reported[1]
        formed = error if isinstance(error, TidegateError) else _job_broke(error, f"job {self._job}")
        return msgspec.structs.replace(report_of(formed), **handle.failed_place())

    @property
    def stopping(self) -> bool:
        """True if the supervisor has requested the end, or has ended."""
        return self._stopping

    # --- the connection ------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Receive messages of the supervisor from now on, in a thread."""
        threading.Thread(target=self._listen, name="tidegate-supervised", daemon=True).start()

    def _listen(self) -> None:
        while (messages := self._line.hear()) is not None:
            for message in messages:
                if isinstance(message, Stop):
                    threading.Thread(target=self._end, args=(None,), name="tidegate-stop", daemon=True).start()
                elif isinstance(message, TakeOver):
                    self._taken_over.set()
                else:
                    self._answers.put(message)
        self._alone = True
        self._taken_over.set()
        self._answers.put(None)  # for threads that wait for an answer now
        threading.Thread(target=_end_hard, name="tidegate-orphaned", daemon=True).start()
        self._end(_ORPHANED_STOP_SECONDS)

    def _end(self, timeout_seconds: float | None) -> None:
        """Stop the job cleanly; interrupt a program that has none yet."""
        with self._lock:
            self._stopping = True
            handle = self._handle
        if handle is None:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            return
        if not handle.status().running:  # it had ended before the request
            return
        with suppress(BaseException):  # the error of the job is the program's last report
            handle.stop(self._stop_timeout_seconds if timeout_seconds is None else timeout_seconds)

    def _ask(self, message: FromDriver) -> GoOn | Refused | RestartQuery | None:
        with self._asking:
            if self._alone:
                return None
            self._say(message)
            return self._answers.get()

    def _say(self, message: FromDriver) -> None:
        with self._saying, suppress(OSError):  # the supervisor has ended: the receiving thread ends the driver
            self._line.say(message)


def current() -> Supervised | None:
    """The supervision of this process; None for a program that runs alone."""
    return _current


def begin_program() -> None:
    """Called when the program first uses tidegate. Without a supervisor, tidegate errors then print no traceback."""
    if _current is None:
        show_errors_alone()


def begin_job(name: str) -> None:
    """The program declares the job of this name. Reported to its supervisor, if there is one."""
    if _current is not None:
        _current.define(name)


def start_moves(step: str) -> None:
    """Report the progress of the start to the supervisor, if there is one."""
    if _current is not None:
        _current.moves(step)


def tell_start(happening: Happening) -> None:
    """The same for what a start hears of its parts: of a restore."""
    start_moves(str(happening))


@contextmanager
def unsupervised() -> Generator[None, None, None]:
    """During this block no supervisor hears of jobs in this process."""
    global _current
    before, _current = _current, None
    try:
        yield
    finally:
        _current = before


def supervise(supervised: Supervised) -> None:
    """From now on this process is supervised."""
    global _current
    _current = supervised


_current: Supervised | None = None

_ORPHANED_STOP_SECONDS = 5.0
_ORPHANED_END_SECONDS = 8.0
_ORPHANED_KILL_SECONDS = 1.0
"""Seconds until a driver without a supervisor has ended."""


def _end_hard() -> None:
    """Limits a clean end without a supervisor: the JVM and the Python workers end first, then this process."""
    threading.Event().wait(_ORPHANED_END_SECONDS)
    if os.getsid(0) == os.getpid():
        end_processes(os.getpid(), 0.0, bound_seconds=_ORPHANED_KILL_SECONDS, spare=os.getpid())
    print("tidegate: the supervisor is gone, and the job did not end in time", file=sys.stderr, flush=True)
    os._exit(1)


def _job_broke(error: BaseException, where: str) -> TidegateError:
    """An error outside of the protocol that ended a job: mostly a dead JVM."""
    return TidegateError(
        Code.QUERY_FAILED,
        expected="a job that runs",
        found=f"{type(error).__name__}: {error}"[:500],
        where=where,
        next_step="see the last output of the JVM (logs/spark.log in the job's folder, and `dmesg` for lack of"
        " memory), then"
        " start again",
    )


def _job_count(found: str, next_step: str) -> TidegateError:
    return TidegateError(
        Code.JOB_COUNT, expected="one job", found=found, where="the program, under `tidegate run`", next_step=next_step
    )
