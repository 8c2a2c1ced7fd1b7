"""The savepoints from which the generations of a job were opened, and the later uids of their queries."""

from __future__ import annotations

import os

import msgspec

from tidegate.checkpoints.job_layout import QUERIES, RESTORES, generation_folder
from tidegate.checkpoints.spark_layout import (
    entry_numbers,
)
from tidegate.core.channel_parts import ALL_LIVE, LiveParts
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import START, entry
from tidegate.core.records import (
    JobRecord,
    Restored,
)
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder


def read_restored(job_folder: Folder, record: JobRecord) -> Restored | None:
    """The savepoint of a generation; None if it was not restored, or if the record belongs to an earlier job of this
    name.
    """
    return _restored_as(job_folder, record.job_id, record.generation)


def goes_back(job_folder: Folder, record: JobRecord, uid: str) -> bool:
    """True if a rewind allowed this query of the generation to repeat rows. It covers the queries of the program at
    that time; any other query needs a new permission.
    """
    restored = read_restored(job_folder, record)
    return restored is not None and restored.rewind != "" and uid in restored.program


def begins_over(job_folder: Folder, record: JobRecord, uid: str) -> TidegateError | None:
    """The error for a query that a restore left behind or renamed, and that is in the program again without a savepoint
    that contains it: it would read its input from the beginning. For sinks with evidence recovery finds the same; this
    check is for sinks without evidence.
    """
    left = [each for each in all_restored(job_folder, record) if uid in each.left_behind]
    ledger = open_storage(generation_folder(job_folder / QUERIES / uid, record.generation))
    if not left or goes_back(job_folder, record, uid) or ledger.read(START) is not None:
        return None
    newest = left[-1]
    return would_begin_over(record, uid, newest.renamed.get(uid), newest.generation, newest.savepoint)


def would_begin_over(
    record: JobRecord, uid: str, now: str | None, generation: int, savepoint: str | os.PathLike[str]
) -> TidegateError:
    """`now`: the uid of the query since that generation was opened from that savepoint; None if it was left behind."""
    return TidegateError(
        Code.RESTORE_UNMATCHED,
        expected=f"the queries that resume in generation {record.generation}",
        found=f"query {uid}, which {f'resumes as {now}' if now else 'was left behind'} since generation "
        f"{generation} was opened from {savepoint}: it would read its input from the beginning",
        where=f"job {record.name}",
        next_step="restore a savepoint that has the query, or give the query another uid and another target",
    )


def all_restored(job_folder: Folder, record: JobRecord) -> list[Restored]:
    """The records of the job's restored generations up to that of `record`, the oldest first. A later one was prepared,
    and does not count: the process died before it opened the generation.
    """
    numbers = entry_numbers(open_storage(job_folder).list(RESTORES))
    found = [_restored_as(job_folder, record.job_id, number) for number in numbers if number <= record.generation]
    return [each for each in found if each is not None]


def live_parts(job_folder: Folder, record: JobRecord) -> LiveParts:
    """The parts of channels that the readers of a job read: those since its newest restore, and the rows in flight of
    the checkpoint that was restored. A generation that continues a sealed one (`savepoints.continued`) has the same
    record, and is no restore.
    """
    newest = read_restored(job_folder, record)
    if newest is None:
        return ALL_LIVE
    since = min(
        each.generation
        for each in all_restored(job_folder, record)
        if msgspec.structs.replace(each, generation=record.generation) == newest
    )
    return LiveParts(since, newest.in_flight)


def _restored_as(job_folder: Folder, job_id: str, generation: int) -> Restored | None:
    found = record_in(open_storage(job_folder), Restored, entry(RESTORES, generation))
    return found if found is not None and found.job_id == job_id else None
