"""The exception history of a job: what failed, and what was done about it. The newest hundred failures are kept.

One small file each in `history/failures/`, written by the job's supervisor. It is for people: nothing is decided by
it, and it may be thrown away.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.spoilt import SPOILT
from tidegate.operate.reports import Report
from tidegate.storages.opening import open_storage
from tidegate.storages.storage import Storage


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One failure of a job. `query`, `epoch` and `run` are None where it was not that of one query."""

    at: float
    """Seconds since 1970."""
    code: str
    """A code of tidegate."""
    what: str
    where: str
    remedy: str
    """What the reader does next, where no restart cures it."""
    query: str | None = None
    epoch: int | None = None
    run: int | None = None
    details: dict[str, str | int] = {}
    """Those of the error: a column, a row, a topic, a file. Older files have none."""
    restart_in_seconds: float | None
    """The pause before the restart; None: there was none."""


def failure_of(report: Report, *, at: float, restart_in_seconds: float | None) -> Failure:
    """What a driver has reported, as it is kept."""
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


def read_failures(job_folder: str | Path) -> list[Failure]:
    """The failures that are kept, newest first. Raises RECORD_CORRUPT for a file that is none."""
    storage = open_storage(job_folder)
    found = ((name, storage.read(f"{_FOLDER}/{name}")) for name in reversed(_names(storage)))
    return [_decode(storage, name, data) for name, data in found if data is not None]


def add_failure(job_folder: str | Path, failure: Failure) -> None:
    """Keep one more. One process at a time adds: the job's supervisor."""
    storage = open_storage(job_folder)
    names = _names(storage)
    number = int(names[-1].removesuffix(_SUFFIX)) + 1 if names else 1
    short = msgspec.structs.replace(failure, what=failure.what[:_TEXT_KEPT])
    storage.put_if_absent(f"{_FOLDER}/{number:0{_DIGITS}}{_SUFFIX}", msgspec.json.encode(short))
    for name in names[: max(len(names) + 1 - FAILURES_KEPT, 0)]:
        storage.delete(f"{_FOLDER}/{name}")


_FOLDER = "history/failures"
_SUFFIX = ".json"
_DIGITS = 12
_TEXT_KEPT = 4_000
_NAME = re.compile(rf"[0-9]{{{_DIGITS}}}{re.escape(_SUFFIX)}")


def _names(storage: Storage) -> list[str]:
    """The files of failures, oldest first; what else lies there is not looked at."""
    return [name for name in storage.list(_FOLDER) if _NAME.fullmatch(name)]


def _decode(storage: Storage, name: str, data: bytes) -> Failure:
    try:
        return msgspec.json.decode(data, type=Failure)
    except SPOILT as error:
        raise TidegateError(
            Code.RECORD_CORRUPT,
            expected="a failure of the job's history",
            found=str(error),
            where=storage.where(f"{_FOLDER}/{name}"),
            next_step="remove this file: it is of the history only, and no run needs it",
        ) from error
