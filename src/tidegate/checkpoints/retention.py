"""Deletes the checkpoints of a canceled job (checkpointing.retention=delete) or of a job to forget (`tidegate forget`).
Afterwards a job of the same name can begin again.

The order makes a kill at any point safe. Before the record *closing* exists, nothing has changed, and the next start
resumes the job. After that, the next start completes the deletion, and begins a new job.

Off a disk a process that deletes may be paused, and resume when another one has completed the deletion and the next job
of this name runs. So there the end of the job is a record that only one job has (`succession.end_job`), in the place of
*closing*; and what is removed has a name that no later job uses, or says which job it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timezone

from tidegate.checkpoints.done_epoch import seal_of
from tidegate.checkpoints.drained import DRAIN, drain_name
from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.ingest_standing import count_prepared, give_up_log, name_of_log
from tidegate.checkpoints.job_layout import (
    CHECKPOINTS,
    GENERATIONS,
    HELD_FILES,
    JOB_RECORD,
    MANIFEST,
    QUERIES,
    RESTORES,
    checkpoint_folders,
    generation_folder,
    generations,
    query_names,
)
from tidegate.checkpoints.manifests import close_numbers
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.checkpoints.succession import (
    end_clearing,
    end_job,
    job_to_clear,
    named_by_job_record,
    reserved,
    reserved_for,
)
from tidegate.core.ledger import DECIDED, LEDGER, entry
from tidegate.core.records import CheckpointRecord, Closing, Sealed, encode
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

_CLOSING = "closing"

ClearSinks = Callable[[str], None]
"""Makes the sinks forget a job, by its id. May be called again."""


def delete_checkpoints(job_folder: Folder, job_id: str, clear_sinks: ClearSinks, queries: Collection[str] = ()) -> None:
    """Remove everything from which the job could resume: in its sinks, then in its folder. Only with the job's locks
    held, and after all its processes have ended. History and locks stay: they are no part of the checkpoint.

    `queries`: the uids that the program is known to have, also of those that have not begun.
    """
    if job_folder.is_local:
        since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        open_storage(job_folder).put_if_absent(_CLOSING, encode(Closing(job_id=job_id, since=since)))
    else:
        end_job(job_folder, job_id)
    go_on_deleting(job_folder, clear_sinks, queries)


def go_on_deleting(job_folder: Folder, clear_sinks: ClearSinks, queries: Collection[str] = ()) -> bool:
    """Finish a `delete_checkpoints` that was killed, if there is one. Only with the job's locks held."""
    if job_folder.is_local:
        return _on_a_disk(job_folder, clear_sinks)
    return _elsewhere(job_folder, clear_sinks, queries)


def _on_a_disk(job_folder: Folder, clear_sinks: ClearSinks) -> bool:
    storage = open_storage(job_folder)
    closing = record_in(storage, Closing, _CLOSING)
    if closing is None:
        return False
    if _job_id(storage) in (None, closing.job_id):
        clear_sinks(closing.job_id)
        for name in (QUERIES, CHECKPOINTS, RESTORES, INGEST, GENERATIONS):
            storage.clear(name)
        storage.delete(DRAIN)
        storage.delete(JOB_RECORD)
        storage.settle("")
    # Otherwise a power loss has restored the record after another job had begun.
    storage.delete(_CLOSING)
    storage.settle("")
    return True


def _elsewhere(job_folder: Folder, clear_sinks: ClearSinks, queries: Collection[str]) -> bool:
    """A lease cannot prove that no driver lives, so each generation leaves a seal, and its decisions. They hold off a
    driver that was paused, which may decide nothing for a job that is gone: neither its next epoch, nor one again whose
    entry in Spark's log is removed. The seals come before the sinks are cleared: what is decided later would be
    committed there, as of a job that has no checkpoints.
    """
    job_id = job_to_clear(job_folder)
    if job_id is None:
        return False
    storage = open_storage(job_folder)
    uids = sorted({*query_names(job_folder), *queries})
    numbers = sorted({*reserved_for(storage, job_id), *_put_by_hand(job_folder)})
    folders = [generation_folder(job_folder / QUERIES / uid, number) for uid in uids for number in numbers]
    for folder in folders:
        _seal(open_storage(folder))
    clear_sinks(job_id)
    for folder in folders:
        _clear_generation(open_storage(folder))
    for number in numbers:
        storage.delete(entry(RESTORES, number))
    close_numbers(job_folder, job_id)
    for number in checkpoint_folders(job_folder):
        _clear_checkpoint(storage, number, job_id)
    _clear_logs(job_folder, job_id)
    storage.delete(drain_name(job_folder, job_id))
    end_clearing(job_folder, job_id)
    if _job_id(storage) == job_id:
        storage.delete(JOB_RECORD)
    return True


def _put_by_hand(job_folder: Folder) -> set[int]:
    """The generations whose numbers no start has reserved. They belong to a job whose folder was copied to this
    place. Later jobs take numbers, so these generations are of no later job.
    """
    found = {number for uid in query_names(job_folder) for number in generations(job_folder / QUERIES / uid)}
    return found - set(reserved(open_storage(job_folder)))


def _clear_checkpoint(storage: Storage, number: int, job_id: str) -> None:
    """Remove a retained checkpoint of this job. A later job of this name has higher numbers (`close_numbers`)."""
    name = f"{CHECKPOINTS}/{number}/{MANIFEST}"
    found = record_in(storage, CheckpointRecord, name)
    if found is not None and found.job_id == job_id:
        if found.held_in:
            storage.clear(f"{CHECKPOINTS}/{HELD_FILES}/{found.held_in}")
        storage.delete(name)


def _clear_logs(job_folder: Folder, job_id: str) -> None:
    """Give up the ingest logs of this job. The next job begins behind `end_clearing`: a log that was named before is
    none of its.
    """
    logs = {uid: open_storage(job_folder / INGEST / uid) for uid in open_storage(job_folder / INGEST).folders("")}
    numbers = reserved_for(open_storage(job_folder), job_id)
    for log in logs.values():
        count_prepared(log, numbers)
    named = {uid: name_of_log(log) for uid, log in logs.items()}
    if job_to_clear(job_folder) == job_id:
        for uid, name in named.items():
            if name is not None:
                give_up_log(logs[uid], name, job_id)


def _clear_generation(generation: Storage) -> None:
    """Remove a generation of a query, without its decisions and its seal."""
    for folder in ("spark", *(f"{LEDGER}/{name}" for name in generation.folders(LEDGER))):
        if folder != DECIDED:
            generation.clear(folder)
    generation.delete_all([f"{LEDGER}/{name}" for name in generation.list(LEDGER)])


def _seal(generation: Storage) -> None:
    """Seal this generation. Nothing is finished before: the job is given up."""
    while seal_of(generation) is None:
        number = max(entry_numbers(generation.list(DECIDED)), default=-1) + 1
        generation.put_if_absent(entry(DECIDED, number), encode(Sealed(epoch=number)))


def is_being_deleted(job_folder: Folder) -> bool:
    """True if deletion of the job's checkpoints has begun: the remaining files no longer count."""
    if not job_folder.is_local:
        return job_to_clear(job_folder) is not None
    return open_storage(job_folder).look(_CLOSING) is not None


def closing_id(job_folder: Folder) -> str | None:
    """The id of the job whose checkpoints are being deleted; None if no deletion has begun."""
    if not job_folder.is_local:
        return job_to_clear(job_folder)
    closing = record_in(open_storage(job_folder), Closing, _CLOSING)
    return None if closing is None else closing.job_id


def _job_id(storage: Storage) -> str | None:
    record = named_by_job_record(storage)
    return None if record is None else record.job_id
