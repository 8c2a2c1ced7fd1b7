"""The status report of a running driver: `beat.json` in the job's folder, rewritten about once a second.

The file may be deleted: no start needs it. So it is not synced. After a power loss it may be torn; a reader then treats
it as missing.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

import msgspec

from tidegate.core.json_formats import Unreadable, parsed
from tidegate.storages.lease import Holder
from tidegate.storages.leases import open_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where

BEAT = "beat.json"


class JobState(Enum):
    """The state of a job as its driver last reported it.

    If it is RUNNING and no process holds the driver lock, the job died.
    """

    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    FINISHED = "FINISHED"
    STOPPED = "STOPPED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_an_end(self) -> bool:
        """True if no supervisor restarts the job after this state."""
        return self in (JobState.FINISHED, JobState.STOPPED, JobState.CANCELED)


class Wrong(Enum):
    """The kind of problem that a job ended with."""

    NOTHING = "nothing"
    SINK = "sink not ready"
    SAVEPOINT = "savepoint of its end"
    INTERRUPTED = "interrupted"
    OTHER = "anything else"


class Post(Enum):
    """The role of a process for a job."""

    DRIVER = "driver"
    SUPERVISOR = "supervisor"


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a job by one driver process, or its supervisor process over all these starts."""

    host: str
    process: int
    started_at: float
    post: Post = Post.DRIVER

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


class QueryBeat(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one query. Epochs are -1 if there was none. Row counts cover rows that this driver made visible."""

    uid: str
    run: int
    epoch: int
    finished: int
    rows: int
    rows_per_second: float
    epoch_ms: float | None = None
    """Median of the last epochs, in milliseconds."""
    lag: str | None = None
    """Input that the sources have and the query has not processed; None if no source reports it."""
    last_done_at: float | None = None
    open_transactions: int = 0
    """Sink transactions that are prepared and not committed yet."""
    dead_letters: int = 0
    """Rows that a sink could not store, among the rows that this driver made visible."""
    behind: int | None = None
    """The same as `lag`, as a number of rows. None in beats of older releases."""
    open_seconds: float | None = None
    """How long the oldest of the open transactions has been prepared; None if none is."""
    behind_barrier: bool | None = None
    """In a checkpoint across the queries that is under way: True if the query has taken part. None if none is."""


class ShownSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it may be shown: secrets are hidden."""

    name: str
    value: str
    origin: str


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a job. Times are seconds since 1970."""

    job: str
    job_id: str
    state: JobState
    host: str
    process: int
    started_at: float
    at: float
    progress_at: float
    """Time of the last change of an epoch or its phase; the current time while no epoch is running."""
    epoch_seconds: float = 0.0
    """Time limit of the running epoch until it is prepared, or until its end is confirmed after a cut; 0 if none is
    computed."""
    settings: tuple[ShownSetting, ...] = ()
    queries: tuple[QueryBeat, ...] = ()
    error: str = ""
    """The error that ended the job; empty if the job ended well."""
    wrong: Wrong | None = None
    """The kind of that problem. None for a running job, and in beats of older releases."""
    savepoint: str = ""
    """Path of the savepoint that the job ended with; empty if there is none."""
    application: str = ""
    """The id of Spark's application, which on YARN is YARN's id. Empty in beats of older releases."""
    lease_age_seconds: float | None = None
    """Seconds since the last renewal of the driver's lease that counted; None for a lease of the operating system,
    which needs none, and in beats of older releases."""

    @property
    def incarnation(self) -> Incarnation:
        """The incarnation that wrote the beat."""
        return Incarnation(host=self.host, process=self.process, started_at=self.started_at)


def is_of_holder(beat: Beat, holder: Holder | None) -> bool:
    """True if the beat was written by the process that holds the driver lock or held it last.

    A beat of an earlier start does not count, even with the same process number: containers reuse numbers.
    """
    if holder is None or (holder.process, holder.host) != (beat.process, beat.host):
        return False
    try:
        return datetime.fromisoformat(holder.since).timestamp() <= beat.started_at
    except (ValueError, OverflowError):  # no time: the file is damaged and names no process
        return False


def read_beat(job_folder: Where) -> Beat | None:
    """The newest beat of the job in `job_folder`; None if it is missing or torn. Raises STORAGE_UNUSABLE if it
    cannot be read."""
    return look_at_beat(job_folder)[0]


def look_at_beat(job_folder: Where) -> tuple[Beat | None, str]:
    """The newest beat, and the problem with the file if it is unreadable."""
    data = open_storage(job_folder).peek(BEAT)
    if data is None:
        return None, ""
    try:
        return parsed(data, Beat), ""
    except Unreadable as error:
        return None, f"{BEAT} cannot be read: {error}"


def write_failed_beat(job_folder: Where, application: str, error: str, at: float) -> None:
    """Report in the place of a driver that was killed that no other one follows. Nothing is written if the newest beat
    is not of its `application`: the job may run in another one. `error`: the text of the error. `at`: seconds since
    1970.
    """
    beat, holder = read_beat(job_folder), open_lease(job_folder).holder()
    if beat is not None and beat.application == application:
        whose = {} if holder is None else {"host": holder.host, "process": holder.process}
        failed = {"state": JobState.FAILED, "error": error, "wrong": Wrong.OTHER}
        write_beat(job_folder, msgspec.structs.replace(beat, started_at=at, at=at, **whose, **failed))


def write_beat(job_folder: Where, beat: Beat) -> None:
    """Replace the beat atomically: a reader sees the old one or the new one. Only the job's driver calls this."""
    open_storage(job_folder).note(BEAT, msgspec.json.encode(beat))
