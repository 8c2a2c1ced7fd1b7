"""Where a new generation is prepared before it counts: under a hidden name, or in its place without *start*."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidegate.checkpoints.job_layout import QUERIES, generation_folder
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger_names import PREPARED_START, START
from tidegate.disk.blocks import measured
from tidegate.disk.side_by_side import side_by_side
from tidegate.storages.checkpoint_files import Measured
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

HIDDEN = ".restored-g"


def hidden_folder(job_folder: Path, uid: str, generation: int) -> Path:
    """On a local disk, a new generation of a query is prepared in this folder."""
    return job_folder / QUERIES / uid / f"{HIDDEN}{generation}"


def ledger_of(job_folder: Folder, uid: str, generation: int) -> tuple[Storage, str]:
    """The ledger of a query in a generation that is prepared, and the name of its *start* in it."""
    if job_folder.is_local:
        return open_storage(hidden_folder(job_folder.local(), uid, generation)), START
    return open_storage(generation_folder(job_folder / QUERIES / uid, generation)), PREPARED_START


def bring(built: Path, into: Folder) -> Iterator[str]:
    """Copy what was built on this machine to its place on another storage; the place of each file, once it is there.

    Raises STORAGE_UNUSABLE for a copy with other bytes, and storage errors.
    """
    source, target = open_checkpoint_files(built), open_checkpoint_files(into)

    def copy(name: str) -> str:
        done, right = source.copy(name, target, lambda _bytes: None), Measured(*measured(built / name))
        if done != right:
            raise TidegateError(
                Code.STORAGE_UNUSABLE,
                expected=f"{right.size_bytes} bytes of SHA-256 {right.sha256}",
                found="no file" if done is None else f"{done.size_bytes} bytes of {done.sha256}",
                where=target.where(name),
                next_step="start again, so that the restore begins anew; then see `tidegate check` of the storage",
            )
        return target.where(name)

    yield from side_by_side(copy, [file.name for file in source.list()])
    target.sync()
