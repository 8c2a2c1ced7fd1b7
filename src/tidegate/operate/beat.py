"""What a running driver says of itself: `beat.json` in the job's folder, written anew about once a second.

It may be removed: no start needs it. So it is not synced, and after a power loss it may be torn; a reader then sees
none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from enum import Enum
from pathlib import Path

import msgspec

from tidegate.core.spoilt import SPOILT
from tidegate.storages.lease import Holder

BEAT = "beat.json"


class JobState(Enum):
    """How a driver says its job is. A RUNNING one whose driver lock is free has died."""

    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    FINISHED = "FINISHED"
    STOPPED = "STOPPED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_an_end(self) -> bool:
        """Whether no supervisor starts the job again after it."""
        return self in (JobState.FINISHED, JobState.STOPPED, JobState.CANCELED)


class Wrong(Enum):
    """What kind of thing was wrong when a job ended."""

    NOTHING = "nothing"
    SINK = "sink not ready"
    SAVEPOINT = "savepoint of its end"
    INTERRUPTED = "interrupted"
    OTHER = "anything else"


class Post(Enum):
    """What a process is to a job."""

    DRIVER = "driver"
    SUPERVISOR = "supervisor"


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a job by one driver process; or the process that keeps it alive, over all such starts."""

    host: str
    process: int
    started_at: float
    post: Post = Post.DRIVER

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


class QueryBeat(msgspec.Struct, frozen=True, kw_only=True):
    """How one query is. Epochs are -1 when there was none; rows are those this driver made visible."""

    uid: str
    run: int
    epoch: int
    finished: int
    rows: int
    rows_per_second: float
    epoch_ms: float | None = None
    """The median of the last epochs."""
    lag: str | None = None
    """What its sources have and is not done yet; None where none of them can tell."""
    last_done_at: float | None = None
    open_transactions: int = 0
    """Of sinks: prepared, and not committed yet."""
    dead_letters: int = 0
    """Rows that a sink could not hold, of those that this driver made visible."""


class ShownSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as a reader may see it."""

    name: str
    value: str
    origin: str


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is. Times are seconds since 1970."""

    job: str
    job_id: str
    state: JobState
    host: str
    process: int
    started_at: float
    at: float
    progress_at: float
    """When an epoch or its phase last moved; now, while no epoch is under way."""
    epoch_seconds: float = 0.0
    """How long the epoch under way may take until it is prepared, or was cut off and has ended; 0 where none is
    computed."""
    settings: tuple[ShownSetting, ...] = ()
    queries: tuple[QueryBeat, ...] = ()
    error: str = ""
    """What ended the job, when it did not end well."""
    wrong: Wrong | None = None
    """What kind of thing that was. None: an older release, which did not say, or a job that runs."""
    savepoint: str = ""
    """The savepoint that the job has ended with, if it has."""

    @property
    def incarnation(self) -> Incarnation:
        """Whose beat it is."""
        return Incarnation(host=self.host, process=self.process, started_at=self.started_at)


def is_of_holder(beat: Beat, holder: Holder | None) -> bool:
    """True if the beat is of the process that holds the driver lock, or held it last; not of an earlier start by a
    process of the same number, as every container has one."""
    if holder is None or (holder.process, holder.host) != (beat.process, beat.host):
        return False
    try:
        return datetime.fromisoformat(holder.since).timestamp() <= beat.started_at
    except (ValueError, OverflowError):  # no time: the file is damaged, and names no process
        return False


def read_beat(job_folder: str | Path) -> Beat | None:
    """The newest beat of the job in `job_folder`; None when there is none, or it is torn. Raises OSError where it
    cannot be looked at."""
    return look_at_beat(job_folder)[0]


def look_at_beat(job_folder: str | Path) -> tuple[Beat | None, str]:
    """The same, and what is wrong with the one that is there."""
    try:
        data = (Path(job_folder) / BEAT).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    try:
        return msgspec.json.decode(data, type=Beat), ""
    except SPOILT as error:
        return None, f"{BEAT} cannot be read: {error}"


def write_beat(job_folder: str | Path, beat: Beat) -> None:
    """Replace the beat: a reader sees the old one or the new one. Only the job's driver does."""
    target = Path(job_folder) / BEAT
    temporary = target.with_name(f".{BEAT}.new")
    try:
        temporary.write_bytes(msgspec.json.encode(beat))
        os.replace(temporary, target)
    except OSError:
        with suppress(OSError):  # what could not be written must not cover why
            temporary.unlink()
        raise
