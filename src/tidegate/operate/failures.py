"""The history of a job's failures: each error, and whether a restart followed. The newest hundred are kept.

Each failure is a small file in `history/failures/`, written by the job's supervisor, or inside YARN by its driver. The
files are for information: only how long a command waits for the next driver depends on them, and they may be deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.operate.beat import Beat
from tidegate.operate.reports import FailureReport
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder, Where
from tidegate.storages.storage import Storage


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One failure of a job. `query`, `epoch` and `run` are None if the failure did not belong to one query."""

    at: float
    """Seconds since 1970."""
    code: str
    """The tidegate error code."""
    what: str
    where: str
    remedy: str
    """The next step for the reader, if no restart can help."""
    query: str | None = None
    epoch: int | None = None
    run: int | None = None
    details: dict[str, str | int] = {}
    """Details of the error: a column, a row, a topic, a file. Files of older releases have none."""
    restart_in_seconds: float | None
    """Pause before the restart, in seconds; None if there was no restart."""
    number: int = 0
    """Its place among all failures of the job, from 1 on; it never goes back."""
    restarts: int = 0
    """The restarts of the job up to this one, also those that the history has forgotten. Files of older releases begin
    to count at 0."""
    of_epochs: int = 0
    """The same for failures that name an epoch."""

    @property
    def told(self) -> str:
        """`what`, with the code once at its begin."""
        return self.what if self.what.startswith(self.code) else f"{self.code}: {self.what}"


def failure_of(report: FailureReport, *, at: float, restart_in_seconds: float | None) -> Failure:
    """Convert a driver's report into a failure record."""
    return Failure(
        at=at,
        code=report.code,
        what=report.what,
        where=report.where,
        remedy=report.remedy,
        query=report.query,
        epoch=report.epoch,
        run=report.run,
        details=report.details,
        restart_in_seconds=restart_in_seconds,
    )


FAILURES_KEPT = 100


def read_failures(job_folder: Where, behind: int = 0) -> list[Failure]:
    """The stored failures, newest first. `behind`: only those with a higher number; no other file is read. Raises
    RECORD_CORRUPT for an invalid file, STORAGE_UNUSABLE."""
    storage = open_storage(job_folder)
    names = [name for name in reversed(_names(storage)) if _number(name) > behind]
    return [found for name in names if (found := _read(storage, name)) is not None]


def newest_failure(job_folder: Where) -> Failure | None:
    """The newest stored failure that can be read: it has the counts of all. Raises STORAGE_UNUSABLE."""
    storage = open_storage(job_folder)
    return next(_readable(storage, _names(storage)), None)


def restart_follows(job_folder: Folder, beat: Beat | None, now: float) -> bool:
    """True if the last driver has failed a moment ago, and the next one has not begun yet: YARN will start it, or a
    supervisor on another machine. On a disk it is False: there the locks of this machine tell. `beat`: the newest one.
    `now`: seconds since 1970; clocks that differ make a command wait for a shorter or a longer time.
    """
    storage = open_storage(job_folder)
    names = [] if job_folder.is_local else _names(storage)
    newest = _read(storage, names[-1]) if names else None
    if newest is None:
        return False
    if newest.restart_in_seconds is None or now > newest.at + newest.restart_in_seconds + _UNTIL_IT_BEGINS_SECONDS:
        return False
    return beat is None or (beat.started_at <= newest.at and not beat.state.is_an_end)


def add_failure(job_folder: Where, failure: Failure) -> None:
    """Store one more failure. Only the job's supervisor calls this, or its driver inside YARN: one process writes at a
    time."""
    storage = open_storage(job_folder)
    names = _names(storage)
    last = next(_readable(storage, names), None)
    number = _number(names[-1]) + 1 if names else 1
    short = msgspec.structs.replace(
        failure,
        what=failure.what[:_TEXT_KEPT],
        number=number,
        restarts=(0 if last is None else last.restarts) + (failure.restart_in_seconds is not None),
        of_epochs=(0 if last is None else last.of_epochs) + (failure.epoch is not None),
    )
    storage.put_if_absent(f"{_FOLDER}/{number:0{_DIGITS}}{_SUFFIX}", msgspec.json.encode(short))
    for name in names[: max(len(names) + 1 - FAILURES_KEPT, 0)]:
        storage.delete(f"{_FOLDER}/{name}")


_UNTIL_IT_BEGINS_SECONDS = 120.0
"""YARN starts a container and a JVM before the next driver begins."""

_FOLDER = "history/failures"
_SUFFIX = ".json"
_DIGITS = 12
_TEXT_KEPT = 4_000
_NAME = re.compile(rf"[0-9]{{{_DIGITS}}}{re.escape(_SUFFIX)}")


def _names(storage: Storage) -> list[str]:
    """The failure files, oldest first. Other files are ignored."""
    return [name for name in storage.list(_FOLDER) if _NAME.fullmatch(name)]


def _number(name: str) -> int:
    return int(name.removesuffix(_SUFFIX))


def _readable(storage: Storage, names: Sequence[str]) -> Iterator[Failure]:
    """The stored failures that can be read, newest first."""
    for name in reversed(names):
        with suppress(TidegateError):
            if (failure := _read(storage, name)) is not None:
                yield failure


def _read(storage: Storage, name: str) -> Failure | None:
    """A stored failure; None if it was removed meanwhile."""
    data = storage.read(f"{_FOLDER}/{name}")
    if data is None:
        return None
    try:
        failure = parsed(data, Failure, "a failure of the job's history")
        return msgspec.structs.replace(failure, number=_number(name))
    except Unreadable as flaw:
        where = storage.where(f"{_FOLDER}/{name}")
        raise flaw.error(where, "remove this file: it belongs only to the history, and no run needs it") from None
