"""Which state a checkpoint holds: rocksdb with checkpoint format 2, or it is refused.

The format in force is what Spark's logs say, never the settings: Spark ignores a change without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.checkpoints.storage import LocalStorage
from tidegate.core.errors import Code, TidegateError
from tidegate.core.spark_log import parse_commits, parse_offsets
from tidegate.spark.session import PROVIDER_KEY, ROCKSDB


def check_state(checkpoint: Path, where: str) -> Sequence[TidegateError]:
    """What stands against a start in a Spark checkpoint folder: another provider, or state without file ids."""
    storage = LocalStorage(checkpoint)
    provider = _newest_provider(storage)
    if provider not in (None, ROCKSDB):
        return [_refused(provider, where)]
    if (checkpoint / "state").is_dir() and _has_commit_without_ids(storage):
        return [_refused("checkpoint format 1: its entries have no ids of state files", where)]
    return []


def _newest_provider(storage: LocalStorage) -> str | None:
    for number in _newest_first(storage, "offsets"):
        entry = parse_offsets(storage.read(f"offsets/{number}"))
        if entry is not None:
            return entry.conf.get(PROVIDER_KEY)
    return None


def _has_commit_without_ids(storage: LocalStorage) -> bool:
    for number in _newest_first(storage, "commits"):
        entry = parse_commits(storage.read(f"commits/{number}"))
        if entry is not None:
            return entry.state_ids is None
    return False


def _newest_first(storage: LocalStorage, folder: str) -> list[int]:
    return entry_numbers(storage.list(folder))[::-1]


def _refused(found: str | None, where: str) -> TidegateError:
    return TidegateError(
        Code.STATE_FORMAT,
        expected=f"{ROCKSDB} with checkpoint format 2",
        found=str(found),
        where=where,
        next_step="start under another job name or checkpointing.dir; this state cannot be told apart by its files",
    )
