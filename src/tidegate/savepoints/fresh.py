"""Opens a new, empty generation of a job: every query begins where its sources begin, with empty state.

The steps are those of a restore (`savepoints.restore`): the ledgers are put together under hidden names, *restores/G*
says what the generation is, and *job.json*, which names it, is the one step that counts. So a kill before that step
leaves the job as it was, and every start finishes what comes behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from tidegate.checkpoints.job_layout import QUERIES, generation_folder, generations, query_names
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.ledger import RUNS, START, entry
from tidegate.core.records import JobRecord, Restored, Run, Start, encode
from tidegate.disk.durable import Trust, remove_folder
from tidegate.savepoints.restore import hidden_folder, switch
from tidegate.savepoints.restored import all_restored
from tidegate.storages.opening import open_storage


class Fresh(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A start shall open a new, empty generation: once under this id, which the caller chooses."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A generation that nothing stands against. `record` is *job.json* as it will be; `starts`: the *start* of every
    query of the program, by uid; `run`: what stands for all earlier runs (its number is the query's own)."""

    job_folder: Path
    record: JobRecord
    fresh: Fresh
    starts: Mapping[str, Start]
    run: Run
    reach: Callable[[str], None] = lambda _step: None


def was_opened(job_folder: Path, record: JobRecord, fresh: Fresh) -> bool:
    """Whether the job has opened a generation under this id: a program that is started again resumes in it."""
    return any(each.rewind == fresh.id for each in all_restored(job_folder, record))


def highest_generation(job_folder: Path) -> int:
    """The highest generation that has a folder; 0 where none has."""
    queries = (job_folder / QUERIES / uid for uid in query_names(job_folder))
    return max((number for query in queries for number in generations(query)), default=0)


def open_empty(opening: Opening) -> None:
    """Open it. Only with the job's locks held, and when everything that is decided has been finished."""
    folder, number = opening.job_folder, opening.record.generation
    with Trust().over(folder, "open a generation"):
        for uid, start in opening.starts.items():
            hidden = hidden_folder(folder, uid, number)
            remove_folder(hidden)
            ledger = open_storage(hidden)
            newest = max(_runs(folder, uid), default=0)
            if newest:
                run = msgspec.structs.replace(opening.run, run=newest)
                ledger.put_if_absent(entry(RUNS, newest), encode(run))
            ledger.put_if_absent(START, encode(start))
        opening.reach("restore.recorded")
    restored = Restored(
        job_id=opening.record.job_id,
        generation=number,
        savepoint=_NOTHING,
        digest="",
        at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        epochs={},
        left_behind=tuple(uid for uid in query_names(folder) if uid not in opening.starts),
        rewind=opening.fresh.id,
        program=tuple(opening.starts),
    )
    switch(folder, restored, opening.record, opening.reach)


_NOTHING = "nothing (--fresh)"
"""In the place of the savepoint that a generation was opened from."""


def _runs(job_folder: Path, uid: str) -> list[int]:
    query = job_folder / QUERIES / uid
    return [
        run
        for number in generations(query)
        for run in entry_numbers(open_storage(generation_folder(query, number)).list(RUNS))
    ]
