"""Checks that the state in a checkpoint is of the configured backend, and refuses other state.

Spark's logs show the backend in force, never the settings: Spark ignores a changed setting without a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.errors import Code, TidegateError
from tidegate.core.spark_log import OffsetsEntry, parse_commits, parse_offsets
from tidegate.settings.kinds import Backend
from tidegate.spark.query_conf import PARTITIONS_KEY, PROVIDER_KEY, STORES
from tidegate.spark.refusals import other_backend
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


def check_state(checkpoint: Folder, backend: Backend, where: str) -> Sequence[TidegateError]:
    """The errors of a start with this Spark checkpoint folder: another backend, or state without file ids."""
    storage, store = open_storage(checkpoint), STORES[backend]
    provider = _newest_conf(storage).get(PROVIDER_KEY, store.provider)
    if provider != store.provider:
        return [_other_backend(backend, provider, where)]
    if store.names_files and storage.folders("state") and _has_commit_without_ids(storage):
        return [_without_ids(where)]
    return []


def partitions_kept(checkpoint: Folder) -> int | None:
    """The number of partitions of keyed state since the first epoch; None before it."""
    kept = _newest_conf(open_storage(checkpoint)).get(PARTITIONS_KEY)
    return None if kept is None else int(kept)


def newest_offsets(checkpoint: Folder) -> OffsetsEntry | None:
    """The positions up to which a Spark checkpoint has read; None before the first complete entry."""
    return _newest_offsets(open_storage(checkpoint))


def _newest_offsets(storage: Storage) -> OffsetsEntry | None:
    for number in _newest_first(storage, "offsets"):
        entry = parse_offsets(storage.read(f"offsets/{number}"))
        if entry is not None:
            return entry
    return None


def _newest_conf(storage: Storage) -> Mapping[str, str]:
    entry = _newest_offsets(storage)
    return {} if entry is None else entry.conf


def _has_commit_without_ids(storage: Storage) -> bool:
    for number in _newest_first(storage, "commits"):
        entry = parse_commits(storage.read(f"commits/{number}"))
        if entry is not None:
            return entry.state_ids is None
    return False


def _newest_first(storage: Storage, folder: str) -> list[int]:
    return entry_numbers(storage.list(folder))[::-1]


def _other_backend(wanted: Backend, provider: str, where: str) -> TidegateError:
    known = next((backend.value for backend, store in STORES.items() if store.provider == provider), None)
    elsewhere = "start under another job name or checkpointing.dir, where state begins empty"
    found = provider if known is None else f"state of {known} ({provider})"
    change = elsewhere if known is None else f"set state.backend = {known}, or {elsewhere}"
    return other_backend(wanted.value, found, where, change)


def _without_ids(where: str) -> TidegateError:
    return TidegateError(
        Code.STATE_FORMAT,
        expected="rocksdb with checkpoint format 2",
        found="checkpoint format 1: its entries have no ids of state files",
        where=where,
        next_step="start under another job name or checkpointing.dir; this state cannot be told apart by its files",
    )
