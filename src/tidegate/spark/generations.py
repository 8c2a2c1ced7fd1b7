"""The generation of a start, and the removal of older ones.

At-most-once opens a new generation at every start: empty state, the newest input, and no epoch of an older one runs
again. The other levels continue in their generation. A checkpoint cannot change between the two: the ledger of an
at-most-once run does not hold everything that another level needs to resume.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.checkpoints.job_layout import QUERIES, generations, query_names
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import START, Query, is_newest
from tidegate.core.levels import Level
from tidegate.core.records import Start
from tidegate.sinks.base import TwoPhaseSink
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder


def generation_of(folder: Folder, level: Level, current: int, where: str) -> int:
    """The generation of a start at this level. `folder` is the query's, `current` the job's generation.

    Raises LEVEL_CHANGED if the checkpoint was written at at-most-once and the job has another level, or the other way
    round.
    """
    found = generations(folder)
    once = level is Level.AT_MOST_ONCE
    for number in found:
        start = _start_of(folder / f"g{number}")
        if start is not None and start.sources and once != any(map(is_newest, start.positions.values())):
            raise TidegateError(
                Code.LEVEL_CHANGED,
                expected=f"a checkpoint that was written {level.value}",
                found="one that was not" if once else "one of an at-most-once job",
                where=f"{where}, {folder / f'g{number}'}",
            )
    return max(found, default=0) + 1 if once else current


def begun_at(job_folder: Folder, source: str) -> str | None:
    """The newest *start* of a job for a source; None if no query that reads the source was started. The program may
    need it before the job holds its locks; nothing is decided by it.
    """
    newest: tuple[int, str] | None = None
    for query in query_names(job_folder):
        for number in generations(job_folder / QUERIES / query):
            start = _start_of(job_folder / QUERIES / query / f"g{number}")
            found = None if start is None else start.positions.get(source)
            if found is not None and (newest is None or number > newest[0]):
                newest = number, found
    return None if newest is None else newest[1]


def remove_older_generations(folder: Folder, query: Query, sinks: Mapping[str, TwoPhaseSink]) -> None:
    """Remove the staged data and the folders of older generations after the new one has its *start*. Safe to
    interrupt. Where the lease does not prove that no older driver lives, the records stay that stop one: its seal, and
    what it reads before.
    """
    storage = open_storage(folder)
    for number in generations(folder):
        if number < query.generation:
            for uid, sink in sinks.items():
                older = query.sink(uid, number)
                sink.abort(sink.pending(older))
                sink.discard(older, 0)
            for name in [""] if query.local_lease else _NOT_KEPT:
                storage.clear(f"g{number}/{name}".rstrip("/"))


_NOT_KEPT = ("spark", "ledger/journal", "ledger/prepared")


def _start_of(generation: Folder) -> Start | None:
    return record_in(open_storage(generation), Start, START)
