"""Holds the files from which Spark can resume one done epoch, while the query continues.

Files that Spark removes later (old entries of its logs, old versions of state) stay held. Spark writes no state file
twice: those of rocksdb have unique names, and those of hashmap appear by a rename. Where another driver may write
hashmap state over, each copy is compared with what the ledger says of it (`checkpoints.state_proof`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidegate.checkpoints.done_epoch import done_epoch
from tidegate.checkpoints.overwritten import state_overwritten
from tidegate.checkpoints.spark_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    checksum_of,
    commits_entry,
    entry_numbers,
    offsets_entry,
)
from tidegate.checkpoints.state_proof import StateFlaw, flaw_of, named_state, needed_at, version_of
from tidegate.core.ledger import FINISHED_THROUGH, START, Query
from tidegate.core.records import DoneEpoch, FinishedThrough, Start, StateFile
from tidegate.disk.side_by_side import side_by_side
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A query, the folder of its generation, and the number of epochs whose logs and state Spark keeps."""

    query: Query
    folder: Folder
    epochs_kept: int


def hold(running: RunningQuery, done: DoneEpoch, held: Folder, go_on: Callable[[], None] = lambda: None) -> bool:
    """Hold a done epoch below `held`, which is empty: Spark can resume it from there. False if Spark may have removed
    some files before or during the call. Raises storage errors, also for a folder that cannot be listed, because its
    files would be missing. `go_on` is called before each file, and at each block of a copy, and may raise.

    The two log entries of the epoch are written from *decided*, because those of Spark need not be durable.
    """
    names = hold_files(running, done, held, go_on)
    if names:
        write_entries(done, open_checkpoint_files(held))
    return bool(names)


def hold_files(
    running: RunningQuery,
    done: DoneEpoch,
    held: Folder,
    go_on: Callable[[], None] = lambda: None,
) -> set[str]:
    """`hold` without the two log entries of the epoch: link its files, or copy them if `held` is another storage.
    Returns their names; none if Spark may have removed some.
    """
    start = _start(open_storage(running.folder))
    if start is None:
        return set()
    spark, into = open_checkpoint_files(running.folder / "spark"), open_checkpoint_files(held)
    if running.folder.scheme is held.scheme:

        def bring(name: str) -> bool:
            go_on()
            return spark.hold(name, into.where())

        names = bring_files(spark, done, bring)
    else:
        names = copy_files(running.folder, done, into, go_on)
    before_is_there = done.epoch <= start.first_epoch or offsets_entry(done.epoch - 1) in names
    newest = max(entry_numbers(each.name.rpartition("/")[2] for each in spark.list(OFFSETS)), default=done.epoch)
    # One epoch to spare: Spark counts kept epochs from the epoch that it is about to write.
    return names if before_is_there and newest - done.epoch < running.epochs_kept - 1 else set()


def copy_files(
    generation: Folder, done: DoneEpoch, held: CheckpointFiles, go_on: Callable[[], None] = lambda: None
) -> set[str]:
    """`bring_files` from another storage, several at once. `generation`: the folder of the query's generation. Empty if
    a state file that the epoch needs is gone. Raises STATE_OVERWRITTEN for state that is not as it was written.
    """
    spark, named = open_checkpoint_files(generation / "spark"), named_state(open_storage(generation))
    flaws: list[StateFlaw] = []

    def bring(name: str) -> bool:
        if named and version_of(name) is not None and name not in named:
            return False  # a snapshot that no record names: the deltas are there instead
        copy = spark.copy(name, held, lambda _: go_on())
        if copy is not None and name in named:
            came = StateFile(name=name, size_bytes=copy.size_bytes, sha256=copy.sha256)
            flaws.extend(filter(None, [flaw_of(spark.where(name), named[name], came)]))
        return copy is not None

    names = bring_files(spark, done, bring, side_by_side)
    if flaws:
        raise state_overwritten(flaws, generation.parent.parent.parent)
    return names if names.issuperset(needed_at(done.epoch + 1, named)) else set()


def bring_files(
    spark: CheckpointFiles,
    done: DoneEpoch,
    bring: Callable[[str], bool],
    for_each: Callable[[Callable[[str], bool], Sequence[str]], Iterable[bool]] = map,
) -> set[str]:
    """Bring the files of one done epoch from Spark's checkpoint, without its own two log entries. Returns their names.

    `bring`: brings the file of this name, and returns False if it does not exist any more. Such a file is taken to be
    too old to be needed; the caller has to check this. `for_each`: applies it to every name, in order or side by side.
    """
    names = [each.name for each in spark.list() if is_of(each.name, done.epoch)]
    return {name for name, came in zip(names, for_each(bring, names), strict=True) if came}


def write_entries(done: DoneEpoch, held: CheckpointFiles) -> None:
    """Write the two log entries of a done epoch, from *decided*."""
    held.write(offsets_entry(done.epoch), done.offsets)
    held.write(commits_entry(done.epoch), done.commits)


def newest_done(running: RunningQuery) -> DoneEpoch | None:
    """The newest done epoch in the ledger; None if there is none, or if the ledger changes during the call."""
    ledger = open_storage(running.folder)
    finished = record_in(ledger, FinishedThrough, FINISHED_THROUGH)
    return None if finished is None else done_epoch(running.query, ledger, finished)


def _start(ledger: Storage) -> Start | None:
    return record_in(ledger, Start, START)


def is_of(name: str, epoch: int) -> bool:
    """True if a file of Spark's checkpoint belongs to an epoch or an earlier one. False for the epoch's own two log
    entries.
    """
    root, _, below = name.partition("/")
    if root in (OFFSETS, COMMITS):
        entry = _ENTRY.fullmatch(below)
        return entry is not None and int(entry[1] or entry[2]) < epoch
    if root == STATE:
        return _version(name.rpartition("/")[2]) <= epoch + 1
    return root == SOURCES or name in (METADATA, checksum_of(METADATA))


def _version(name: str) -> int:
    """The version of a state file: epoch N makes N + 1. 0 for files that belong to no single version."""
    found = _STATE_FILE.fullmatch(name)
    return 0 if found is None else int(found[1])


_STATE_FILE = re.compile(r"\.?(\d+)(?:_[^.]+)?\.(?:delta|snapshot|zip|changelog)(?:\.crc)*")
_ENTRY = re.compile(r"(0|[1-9][0-9]*)|\.(0|[1-9][0-9]*)\.crc")
