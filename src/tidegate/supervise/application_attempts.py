"""What the drivers of one application of YARN know of those before them, and what follows from it.

YARN starts the driver of an application again after each failure, as an *application attempt*; they are counted from 1.
No process outlives them, so a record in the job's folder has what a supervisor would remember. Each attempt writes its
own failures. One that was killed has written none: the next one counts it.

    restarts/<application>/<number>   all failures so far, and the decision after the newest one
    restarts/<application>/has-run    the queries of an attempt have run, and the id of their job

Each is put if absent. The newest number counts and is never removed, so a late attempt changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import HeaderLine, RecordFormat, Unreadable
from tidegate.operate.failures import Failure, failure_of
from tidegate.operate.reports import FailureReport, code_of
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage
from tidegate.supervise.restart import RestartPolicy
from tidegate.supervise.restart_history import RestartHistory, RestartsSoFar

RESTARTS = "restarts"
"""The folder of the records, below the folder of the job."""

_HAS_RUN = "has-run"
_PAST_KEPT = 10_000
"""Restarts in a record, at most: half a megabyte. A job that fails once a second is not counted for ever."""

_APPLICATIONS_KEPT = 20
"""The newest ones: YARN has given up an attempt of an older one long ago."""

RecordT = TypeVar("RecordT")

_LOOKS = 10
"""At most. A record that is listed and not found was removed by the attempt that has put a newer one."""


class AttemptsSoFar(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of an application so far. Times are seconds since 1970, by the clock of each attempt's machine: they
    measure pauses, and no rule of the protocol compares them.
    """

    ended: int = 0
    """The newest attempt whose end is counted."""
    restarts: RestartsSoFar = RestartsSoFar()
    failed_epochs: dict[str, int] = {}
    """By query, failed epochs in a row, if the newest failure is such an epoch and was tolerated."""
    failure: Failure | None = None
    """The newest one, and whether a restart follows."""
    resumes: str = ""
    """The id of the job that attempts have run; empty if none has."""

    @property
    def is_given_up(self) -> bool:
        """True if no attempt is to start the job any more."""
        return self.failure is not None and self.failure.restart_in_seconds is None

    def uncounted(self, attempt: int) -> range:
        """The attempts before this one that have ended without a report."""
        return range(self.ended + 1, attempt)

    def pause_at(self, now: float) -> float:
        """Seconds until the next start. Never longer than the pause itself, whatever the clocks of two machines say."""
        past = self.restarts.past
        return min(max(0.0, self.restarts.next_start - now), past[-1].pause if past else 0.0)

    def running(self, job_id: str = "") -> AttemptsSoFar:
        """The queries of an attempt have run. `job_id`: that of their job, if it is known."""
        restarts = msgspec.structs.replace(self.restarts, has_run=True)
        return msgspec.structs.replace(self, restarts=restarts, resumes=self.resumes or job_id)


class HasRun(msgspec.Struct, frozen=True, kw_only=True):
    """The queries of an attempt have run."""

    job_id: str


def after(
    so_far: AttemptsSoFar,
    strategy: RestartPolicy,
    report: FailureReport,
    at: float,
    *,
    ended: int | None = None,
    is_final: bool = False,
    failed_epochs: Mapping[str, int] | None = None,
) -> AttemptsSoFar:
    """One more failure, and the decision after it.

    `ended`: the attempt that has ended with it; None if one query has failed and its driver runs. `is_final`: the job
    was to end, so that no restart follows. `failed_epochs`: by query, if the failure is a tolerated epoch.
    """
    restarts = msgspec.structs.replace(so_far.restarts, past=so_far.restarts.past[-_PAST_KEPT:])
    history = RestartHistory(strategy, restarts)
    codes = [code_of(label) for label in report.codes]
    if is_final:
        pause = None
    elif failed_epochs:
        pause = history.pause_of_tolerated(codes, at)
    else:
        pause = history.pause_of_failed(codes, at)
    return AttemptsSoFar(
        ended=so_far.ended if ended is None else ended,
        restarts=history.so_far,
        failed_epochs=dict(failed_epochs or {}),
        failure=failure_of(report, at=at, restart_in_seconds=pause),
        resumes=so_far.resumes,
    )


def given_up(failure: Failure, strategy: RestartPolicy, where: str) -> TidegateError:
    """The error of a start after the restart strategy has refused one."""
    return TidegateError(
        code_of(failure.code),
        expected=f"a failure after which the job is started again (restart.strategy: {strategy})",
        found=f"none follows this one:\n{failure.what}",
        where=where,
        next_step="see `tidegate history JOB`; when the cause is gone, submit the program again: each application"
        " begins to count anew",
    )


class AttemptRecords:
    """The records of one application. Every method raises the errors of the storage."""

    def __init__(self, job_folder: Folder, application: str) -> None:
        self._application = application
        self._restarts = open_storage(job_folder / RESTARTS)
        self._storage: Storage = self._restarts.below(application)

    def newest(self) -> tuple[int, AttemptsSoFar]:
        """The number of the newest record, 0 if there is none, and what it says. Raises RECORD_CORRUPT,
        RECORD_NEWER."""
        number = 0
        for _ in range(_LOOKS):
            names = self._storage.list("")
            number = max((int(name) for name in names if name.isdigit()), default=0)
            data = self._storage.read(str(number)) if number else b""
            if data is not None:
                known = self._decoded(FORMAT, str(number), data) if number else AttemptsSoFar()
                ran = self._storage.read(_HAS_RUN) if _HAS_RUN in names else None
                if ran is not None:
                    known = known.running(self._decoded(HAS_RUN_FORMAT, _HAS_RUN, ran).job_id)
                return number, known
        return number, self._decoded(FORMAT, str(number), b"")  # listed, and never there

    def put(self, number: int, known: AttemptsSoFar) -> bool:
        """Put the record of this number, and remove those before it. False if another attempt has put it."""
        if not self._storage.put_if_absent(str(number), FORMAT.encode(known)):
            return False
        older = [name for name in self._storage.list("") if name.isdigit() and int(name) < number]
        self._storage.delete_all(older)
        return True

    def has_run(self, job_id: str) -> None:
        """Note that the queries of an attempt have run. The job is this application's now: the failures of others go.
        Their jobs stay recorded, so that a late attempt of theirs never resumes this one.
        """
        self._storage.put_if_absent(_HAS_RUN, HAS_RUN_FORMAT.encode(HasRun(job_id=job_id)))
        others = sorted(name for name in self._restarts.folders("") if name != self._application)
        for name in others[:-_APPLICATIONS_KEPT]:
            self._restarts.clear(name)
        for name in others[-_APPLICATIONS_KEPT:]:
            other = self._restarts.below(name)
            other.delete_all([each for each in other.list("") if each.isdigit()])

    def _decoded(self, form: RecordFormat[RecordT], name: str, data: bytes) -> RecordT:
        try:
            return form.decode(data)
        except Unreadable as flaw:
            where = self._storage.where(name)
            raise flaw.error(where, "submit the program again: each application begins to count anew") from None


FORMAT = RecordFormat(AttemptsSoFar, HeaderLine("application-attempts", 1))
HAS_RUN_FORMAT = RecordFormat(HasRun, HeaderLine("application-has-run", 1))
