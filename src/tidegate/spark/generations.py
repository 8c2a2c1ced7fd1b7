"""Which generation of a query a start belongs to, and what becomes of the ones before it.

At-most-once opens a new generation at every start: empty state, the newest input, and nothing of an older one runs
again. The other levels go on in the generation they have. The two do not mix in one checkpoint: what an
at-most-once run has shown stands in no ledger that another level could go on from.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path

import msgspec

from tidegate.checkpoints.job_layout import generations
from tidegate.checkpoints.spark_layout import SOURCES
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import START, Query, is_newest
from tidegate.core.levels import Level
from tidegate.core.records import Start, decode
from tidegate.disk.durable import sync_folder
from tidegate.disk.storage import LocalStorage
from tidegate.sinks.base import TwoPhaseSink


def generation_of(folder: Path, level: Level, current: int, where: str) -> int:
    """The generation of a start at this level; `folder` is the query's, `current` the job's generation.

    Raises LEVEL_CHANGED when the checkpoint was written at-most-once and the job is not, or the other way round.
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
                next_step="set checkpointing.mode back, or start under another job name or checkpointing.dir",
            )
    return max(found, default=0) + 1 if once else current


def check_nothing_comes_again(folder: Path, left_out: Set[str], where: str) -> None:
    """Raise when an older generation has read a file that a new one would read again.

    The files to leave out are listed where the program declares its source. Since then an older run may have gone on:
    of the same Job object, or of another process until its locks were free.
    """
    for number in generations(folder):
        for file in sorted(_files_read(folder / f"g{number}" / "spark")):
            if file not in left_out:
                raise TidegateError(
                    Code.LEVEL_REFUSED,
                    expected="files that no earlier run of this at-most-once job has read",
                    found=f"{file}, read by generation {number} after this job was declared",
                    where=where,
                    next_step="declare the job again (a new Job with its sources), then start it",
                )


def _files_read(checkpoint: Path) -> set[str]:
    """The files in the logs of a generation's file sources: a version line, then one JSON object a line."""
    found: set[str] = set()
    for entry in (checkpoint / SOURCES).glob("*/[0-9]*"):
        for line in entry.read_text("utf-8").splitlines()[1:]:
            with suppress(msgspec.DecodeError):  # torn: nothing of it was computed
                path = msgspec.json.decode(line, type=dict[str, object]).get("path")
                found |= {path} if isinstance(path, str) else set()
    return found


def remove_older_generations(folder: Path, query: Query, sinks: Mapping[str, TwoPhaseSink]) -> None:
    """What older generations staged, and their folders, once the new one has its *start*. Can be cut off anywhere."""
    for number in generations(folder):
        if number < query.generation:
            for uid, sink in sinks.items():
                older = query.sink(uid, number)
                sink.abort(sink.pending(older))
                sink.discard(older, 0)
            trash = folder / f".trash-g{number}"
            (folder / f"g{number}").rename(trash)
            sync_folder(folder)
            shutil.rmtree(trash)
    for trash in folder.glob(".trash-g*"):
        shutil.rmtree(trash)


def _start_of(generation: Path) -> Start | None:
    storage = LocalStorage(generation)
    data = storage.read(START)
    return None if data is None else decode(Start, data, str(storage.path(START)))
