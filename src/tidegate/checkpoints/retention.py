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
from tidegate.checkpoints.job_layout import (
    CHECKPOINTS,
    GENERATIONS,
    JOB_RECORD,
    QUERIES,
    RESTORES,
    generation_folder,
    generations,
    query_names,
)
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.ledger import DECIDED, LEDGER, entry
from tidegate.core.records import Closing, JobRecord, Sealed, decode, encode, is_of_kind
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
        _clear_queries(job_folder)
        # A process that opens a generation may be paused, where no lock proves that there is none.
        for name in (CHECKPOINTS, RESTORES, INGEST, *([GENERATIONS] if job_folder.is_local else [])):
            storage.clear(name)
        storage.delete(DRAIN)
        storage.delete(JOB_RECORD)
        storage.settle("")
    # Otherwise a power loss has restored the record after another job had begun.
    storage.delete(_CLOSING)
    storage.settle("")
    return True


def _clear_queries(job_folder: Folder) -> None:
    """Remove the queries. File locks prove that no driver lives. A lease cannot, so each generation leaves a seal. It
    holds off a driver that was paused, which may decide nothing for a job that is gone.
    """
    if job_folder.is_local:
        open_storage(job_folder).clear(QUERIES)
        return
    for uid in query_names(job_folder):
        for number in generations(job_folder / QUERIES / uid):
            generation = open_storage(generation_folder(job_folder / QUERIES / uid, number))
            kept = entry(DECIDED, _sealed(generation))
            for folder in ("spark", *(f"{LEDGER}/{name}" for name in generation.folders(LEDGER))):
                if folder != DECIDED:
                    generation.clear(folder)
            decided = [entry(DECIDED, number) for number in entry_numbers(generation.list(DECIDED))]
            for name in [*(f"{LEDGER}/{name}" for name in generation.list(LEDGER)), *decided]:
                if name != kept:
                    generation.delete(name)


def _sealed(generation: Storage) -> int:
    """The epoch at which this generation is sealed. Nothing is finished before: the job is given up."""
    while True:
        newest = max(entry_numbers(generation.list(DECIDED)), default=-1)
        data = generation.read(entry(DECIDED, newest)) if newest >= 0 else None
        if data is not None and is_of_kind(Sealed, data):
            return newest
        generation.put_if_absent(entry(DECIDED, newest + 1), encode(Sealed(epoch=newest + 1)))


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
