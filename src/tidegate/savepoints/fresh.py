"""Opens a new, empty generation of a job: every query begins where its sources begin, with empty state.

The steps are those of a restore (`savepoints.restore`). The ledgers are prepared where nothing reads them. *restores/G*
describes the generation. The record that opens it is the one step that counts. So a kill before that step leaves the
job unchanged, and every start completes the steps after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone

import msgspec

from tidegate.checkpoints.job_layout import QUERIES, generation_folder, generations, newest_begun, query_names
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.checkpoints.succession import reserve, reserved
from tidegate.core.ledger import RUNS, entry
from tidegate.core.records import JobRecord, Restored, Run, Start, encode
from tidegate.disk.durable import Trust, remove_folder
from tidegate.savepoints.preparing import hidden_folder, ledger_of
from tidegate.savepoints.restore import switch
from tidegate.savepoints.restored import all_restored
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


class Fresh(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A start opens a new, empty generation, once for each id. The caller chooses the id."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A checked generation. `record`: the new *job.json*. `starts`: the *start* of every query of the program, by uid.
    `run`: the number that stands for all earlier runs (each query has its own). `older`: the *job.json* that was
    judged; None for a new job.
    """

    job_folder: Folder
    record: JobRecord
    older: JobRecord | None
    fresh: Fresh
    starts: Mapping[str, Start]
    run: Run
    reach: Callable[[str], None] = lambda _step: None


def was_opened(job_folder: Folder, record: JobRecord, fresh: Fresh) -> bool:
    """True if the job has already opened a generation under this id: a restarted program resumes in it."""
    return any(each.rewind == fresh.id for each in all_restored(job_folder, record))


def highest_generation(job_folder: Folder) -> int:
    """The highest generation with a folder, or that a start prepares; 0 if there is none."""
    queries = (job_folder / QUERIES / uid for uid in query_names(job_folder))
    begun = [number for query in queries for number in generations(query)]
    return max([0, *begun, *reserved(open_storage(job_folder))])


def first_generation(job_folder: Folder) -> int:
    """The generation of a new job: above those that a forgotten job of this name has left sealed, which is on HDFS and
    S3. Where a query has begun and no job is recorded, the records are lost: then it is 1, and the start finds the
    other job's *start*. On a disk a forgotten job leaves nothing, so whatever stands there is looked at.
    """
    if job_folder.is_local:
        return 1
    lost = not reserved(open_storage(job_folder)) and any(
        newest_begun(job_folder / QUERIES / uid) for uid in query_names(job_folder)
    )
    return 1 if lost else highest_generation(job_folder) + 1


def open_empty(opening: Opening) -> None:
    """Open it. Only with the job's locks held, and after all decided epochs are finished."""
    folder, number = opening.job_folder, opening.record.generation
    if not folder.is_local:
        reserve(folder, opening.older, opening.record)
    with Trust().over(folder.local(), "open a generation") if folder.is_local else nullcontext():
        for uid, start in opening.starts.items():
            if folder.is_local:
                remove_folder(hidden_folder(folder.local(), uid, number))
            ledger, name = ledger_of(folder, uid, number)
            newest = max(runs_of(folder, uid), default=0)
            if newest:
                run = msgspec.structs.replace(opening.run, run=newest)
                ledger.put_if_absent(entry(RUNS, newest), encode(run))
            ledger.put_if_absent(name, encode(start))
        opening.reach("restore.recorded")
    restored = Restored(
        job_id=opening.record.job_id,
        generation=number,
        savepoint=_NOTHING,
        digest="",
        at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        epochs={},
        left_behind=tuple(uid for uid in query_names(opening.job_folder) if uid not in opening.starts),
        rewind=opening.fresh.id,
        program=tuple(opening.starts),
    )
    switch(folder, restored, opening.older, opening.record, tuple(opening.starts), opening.reach)


_NOTHING = "nothing (--fresh)"
"""Used in place of the savepoint from which a generation was opened."""


def runs_of(job_folder: Folder, uid: str) -> list[int]:
    """The numbers of all runs of a query, in all its generations."""
    query = job_folder / QUERIES / uid
    return [
        run
        for number in generations(query)
        for run in entry_numbers(open_storage(generation_folder(query, number)).list(RUNS))
    ]
