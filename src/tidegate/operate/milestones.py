"""The milestones of a job: its starts, savepoints and ends, kills of its drivers, and lost records that it skipped.

They are JSON lines in `history/milestones.jsonl`, the oldest first: at most 50 skips and 200 others. The holder of the
job's lease writes them: the driver, or a command that takes the savepoint of a job that has ended. The file is only for
display: it is not synced, and it may be deleted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Final

import msgspec

from tidegate.core.errors import Code
from tidegate.core.json_formats import readable
from tidegate.operate.failures import Failure
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where
from tidegate.storages.storage import Storage

MILESTONES_KEPT: Final = 200
SKIPS_KEPT: Final = 50

_FILE = "history/milestones.jsonl"
_TEXT_KEPT = 500


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


def savepoint_taken(path: object, at: float) -> Milestone:
    """That of a complete savepoint. One that is found again is the same milestone."""
    return Milestone(at=at, kind=MilestoneKind.SAVEPOINT, text=f"a savepoint in {path}")


def add_milestones(job_folder: Where, new: Sequence[Milestone]) -> None:
    """Store more milestones, the oldest first; those that are stored already are left out. Only the holder of the job's
    lease calls this. Raises STORAGE_UNUSABLE."""
    storage = open_storage(job_folder)
    found = _read(storage)
    for each in new:
        if not any(_is_same(each, other) for other in found):
            found.append(msgspec.structs.replace(each, text=_shortened(each.text)))
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in _kept(found))
    storage.note(_FILE, lines)


def read_milestones(job_folder: Where) -> list[Milestone]:
    """The milestones of a job, the newest first. A torn line is left out. Raises STORAGE_UNUSABLE."""
    return _read(open_storage(job_folder))[::-1]


def beside_failures(milestones: Sequence[Milestone], failures: Sequence[Failure]) -> list[Milestone]:
    """The milestones without the kills and failures that the history of failures has, too.

    A supervisor records how its driver has ended before the next driver starts. So a failure between the end of a
    driver and the next start is of that driver, by the clocks of their machines; one that tells of another end than a
    kill is of a start that was refused.
    """
    starts = [each.at for each in milestones if each.kind is MilestoneKind.START]

    def is_told(each: Milestone) -> bool:
        if each.kind not in (MilestoneKind.KILL, MilestoneKind.FAILURE):
            return False
        until = min((start for start in starts if start > each.at), default=math.inf)
        told = [failure for failure in failures if each.at <= failure.at <= until]
        return any(each.kind is MilestoneKind.FAILURE or failure.code in _OF_A_KILL for failure in told)

    return [each for each in milestones if not is_told(each)]


_OF_A_KILL = frozenset(each.label for each in (Code.DRIVER_DIED, Code.DRIVER_STALLED, Code.LEASE_LOST))


def _is_same(one: Milestone, other: Milestone) -> bool:
    if one.kind is not other.kind:
        return False
    if one.kind is MilestoneKind.SAVEPOINT:
        return one.text == other.text
    return one.kind is MilestoneKind.KILL and one.at == other.at


def _kept(found: Sequence[Milestone]) -> list[Milestone]:
    skips = [each for each in found if each.kind is MilestoneKind.SKIP][-SKIPS_KEPT:]
    others = [each for each in found if each.kind is not MilestoneKind.SKIP][-MILESTONES_KEPT:]
    return sorted([*skips, *others], key=lambda each: each.at)


def _shortened(text: str) -> str:
    """Its first line, as text that can be stored: the path of a savepoint need not be UTF-8."""
    return text.strip().partition("\n")[0][:_TEXT_KEPT].encode("utf-8", "replace").decode()


def _read(storage: Storage) -> list[Milestone]:
    """The oldest first."""
    return list(readable((storage.peek(_FILE) or b"").splitlines(), Milestone))
