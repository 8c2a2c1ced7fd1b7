"""The milestones of a job: its starts, savepoints and ends, kills of its drivers, and lost records that it skipped.

They are JSON lines in `history/milestones.jsonl`, at most 200, the oldest first. The holder of the job's lease writes
them: the driver, or a command that takes the savepoint of a job that has ended. The file is only for display: it is not
synced, and it may be deleted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.operate.failures import Failure
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where
from tidegate.storages.storage import Storage

MILESTONES_KEPT = 200

_FILE = "history/milestones.jsonl"


class MilestoneKind(Enum):
    """What has happened. `kill`: the next start found that the driver before it had ended without a report."""

    START = "start"
    SAVEPOINT = "savepoint"
    KILL = "kill"
    SKIP = "skip"  # records that are lost in a source were skipped, as its setting allows
    STOP = "stop"  # the job has ended as it was asked to, or because all input was read
    FAILURE = "failure"  # the job has ended with an error


class Milestone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One milestone of a job. `at`: seconds since 1970. `text`: more about it, in a sentence. `query`, `epoch`,
    `source`: of a skip."""

    at: float
    kind: MilestoneKind
    text: str
    query: str | None = None
    epoch: int | None = None
    source: str | None = None


def add_milestones(job_folder: Where, new: Sequence[Milestone]) -> None:
    """Store more milestones, the oldest first. Only the holder of the job's lease calls this.

    Neither a job nor a savepoint depends on them: an error is logged, and not raised.
    """
    storage = open_storage(job_folder)
    try:
        lines = [msgspec.json.encode(each) for each in [*_read(storage), *new][-MILESTONES_KEPT:]]
        storage.note(_FILE, b"".join(line + b"\n" for line in lines))
    except (OSError, TidegateError) as error:
        from logging import getLogger  # commands that only look load no logging

        getLogger("tidegate").warning("a milestone of the job is not in its history: %s", error)


def read_milestones(job_folder: Where) -> list[Milestone]:
    """The milestones of a job, the oldest first. A torn line is left out. Raises STORAGE_UNUSABLE."""
    return _read(open_storage(job_folder))


def beside_failures(milestones: Sequence[Milestone], failures: Sequence[Failure]) -> list[Milestone]:
    """The milestones without the kills and failures that the history of failures has, too.

    A supervisor records how its driver has ended before the next driver starts. So a failure between the end of a
    driver and the next start is of that driver.
    """
    starts = [each.at for each in milestones if each.kind is MilestoneKind.START]

    def is_told(each: Milestone) -> bool:
        if each.kind not in (MilestoneKind.KILL, MilestoneKind.FAILURE):
            return False
        until = min((start for start in starts if start > each.at), default=math.inf)
        return any(each.at <= failure.at <= until for failure in failures)

    return [each for each in milestones if not is_told(each)]


def _read(storage: Storage) -> list[Milestone]:
    found: list[Milestone] = []
    for line in (storage.peek(_FILE) or b"").splitlines():
        try:
            found.append(parsed(line, Milestone))
        except Unreadable:
            continue
    return found
