"""Deletes the checkpoints of a canceled job (checkpointing.retention=delete) or of a job to forget (`tidegate forget`).
Afterwards a job of the same name can begin again.

The order makes a kill at any point safe. Before the record *closing* exists, nothing has changed, and the next start
resumes the job. After that, the next start completes the deletion, and begins a new job.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from tidegate.checkpoints.drained import DRAIN
from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.job_layout import CHECKPOINTS, JOB_RECORD, QUERIES, RESTORES
from tidegate.core.records import Closing, JobRecord, decode, encode
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

_CLOSING = "closing"

ClearSinks = Callable[[str], None]
"""Makes the sinks forget a job, by its id. May be called again."""


def delete_checkpoints(job_folder: Folder, job_id: str, clear_sinks: ClearSinks) -> None:
    """Remove everything from which the job could resume: in its sinks, then in its folder. Only with the job's locks
    held, and after all its processes have ended. History and locks stay: they are no part of the checkpoint.
    """
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    open_storage(job_folder).put_if_absent(_CLOSING, encode(Closing(job_id=job_id, since=since)))
    go_on_deleting(job_folder, clear_sinks)


def go_on_deleting(job_folder: Folder, clear_sinks: ClearSinks) -> bool:
    """Finish a `delete_checkpoints` that was killed, if there is one. Only with the job's locks held."""
    storage = open_storage(job_folder)
    data = storage.read(_CLOSING)
    if data is None:
        return False
    closing = decode(Closing, data, storage.where(_CLOSING))
    if _job_id(storage) in (None, closing.job_id):
        clear_sinks(closing.job_id)
        for name in (QUERIES, CHECKPOINTS, RESTORES, INGEST):
            storage.clear(name)
        storage.delete(DRAIN)
        storage.delete(JOB_RECORD)
        storage.settle("")
    # Otherwise a power loss has restored the record after another job had begun.
    storage.delete(_CLOSING)
    storage.settle("")
    return True


def is_being_deleted(job_folder: Folder) -> bool:
    """True if deletion of the job's checkpoints has begun: the remaining files no longer count."""
    return open_storage(job_folder).look(_CLOSING) is not None


def closing_id(job_folder: Folder) -> str | None:
    """The id of the job whose checkpoints are being deleted; None if no deletion has begun."""
    storage = open_storage(job_folder)
    data = storage.read(_CLOSING)
    return None if data is None else decode(Closing, data, storage.where(_CLOSING)).job_id


def _job_id(storage: Storage) -> str | None:
    data = storage.read(JOB_RECORD)
    return None if data is None else decode(JobRecord, data, storage.where(JOB_RECORD)).job_id
