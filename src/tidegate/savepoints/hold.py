"""Holds the files from which Spark can resume one done epoch, while the query continues: by hard links, without a copy.

Files that Spark removes meanwhile (old entries of its logs, old versions of state) stay under the link. Spark writes no
state file a second time: those of rocksdb have names of their own, and those of hashmap appear by a rename.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.checkpoints.done_epoch import done_epoch
from tidegate.checkpoints.spark_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    commits_entry,
    entry_numbers,
    is_temporary,
    offsets_entry,
)
from tidegate.core.ledger import FINISHED_THROUGH, START, Query
from tidegate.core.records import DoneEpoch, FinishedThrough, Start, decode
from tidegate.disk.walking import files_below
from tidegate.storages.opening import open_storage
from tidegate.storages.storage import Storage


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A query, the folder of its generation, and how many epochs Spark keeps the logs and the state of."""

    query: Query
    folder: Path
    epochs_kept: int


def hold(running: RunningQuery, held: Path) -> DoneEpoch | None:
    """Link the files of the newest done epoch below `held`, which is empty. None when Spark may have removed some
    meanwhile: it is for the caller to try again with the epoch that is the newest then. Raises OSError, also for a
    folder that cannot be listed: what is in it would be missing.

    The two log entries of the epoch are written from *decided*, as the ones of Spark need not be durable.
    """
    ledger = open_storage(running.folder)
    done = newest_done(running)
    start = _start(ledger)
    if done is None or start is None:
        return None
    spark = running.folder / "spark"
    hold_files(spark, done, held, os.link)
    before_is_there = done.epoch <= start.first_epoch or (held / offsets_entry(done.epoch - 1)).exists()
    newest = max(entry_numbers(os.listdir(spark / OFFSETS)), default=done.epoch)
    # One epoch to spare: Spark counts what it keeps from the epoch that it is about to write.
    return done if before_is_there and newest - done.epoch < running.epochs_kept - 1 else None


def hold_files(spark: Path, done: DoneEpoch, held: Path, bring: Callable[[Path, Path], None]) -> None:
    """Bring the files of one done epoch from Spark's checkpoint to `held`; those that vanish meanwhile are left out."""
    for name in _names(spark, done.epoch):
        target = held / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # too old to be needed, unless the caller finds otherwise
            bring(spark / name, target)
    for name, data in ((offsets_entry(done.epoch), done.offsets), (commits_entry(done.epoch), done.commits)):
        (held / name).parent.mkdir(parents=True, exist_ok=True)
        (held / name).write_bytes(data)


def newest_done(running: RunningQuery) -> DoneEpoch | None:
    """The newest epoch that is done, by the ledger; None if there is none, or the ledger moves meanwhile."""
    ledger = open_storage(running.folder)
    data = ledger.read(FINISHED_THROUGH)
    if data is None:
        return None
    finished = decode(FinishedThrough, data, ledger.where(FINISHED_THROUGH))
    return done_epoch(running.query, ledger, finished)


def _start(ledger: Storage) -> Start | None:
    data = ledger.read(START)
    return None if data is None else decode(Start, data, ledger.where(START))


def _names(spark: Path, epoch: int) -> Iterator[str]:
    """The files below Spark's checkpoint that belong to an epoch, with nothing of later ones."""
    if (spark / METADATA).exists():
        yield METADATA
        yield f".{METADATA}.crc"
    for log in (OFFSETS, COMMITS):
        for number in entry_numbers(os.listdir(spark / log)):
            if number < epoch:
                yield from (f"{log}/{number}", f"{log}/.{number}.crc")
    for root in (SOURCES, STATE):
        for folder, names in files_below(spark / root) if (spark / root).exists() else ():
            for name in names:
                if not is_temporary(name) and (root != STATE or _version(name) <= epoch + 1):
                    yield (folder / name).relative_to(spark).as_posix()


def _version(name: str) -> int:
    """The version that a state file is of: epoch N makes N + 1. 0 for files that belong to no single one."""
    found = _STATE_FILE.fullmatch(name)
    return 0 if found is None else int(found[1])


_STATE_FILE = re.compile(r"\.?(\d+)(?:_[^.]+)?\.(?:delta|snapshot|zip|changelog)(?:\.crc)*")
