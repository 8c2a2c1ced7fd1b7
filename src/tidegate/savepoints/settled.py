"""The part of a restore that every start completes: the generation that counts gets its place, abandoned ones go."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from tidegate.checkpoints.job_layout import JOB_RECORD, QUERIES, RESTORES, generation_folder, generations, query_names
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.ledger import START, entry
from tidegate.core.ledger_names import PREPARED_START
from tidegate.core.records import JobRecord, decode, encode
from tidegate.disk.durable import TRASH, Trust, remove_folder, sync_folder
from tidegate.savepoints.ingest_restore import settle_logs
from tidegate.savepoints.preparing import HIDDEN
from tidegate.savepoints.restored import read_restored
from tidegate.savepoints.succession import newest_generation, reserved
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


def settle(job_folder: Folder) -> None:
    """Complete the restore whose generation *job.json* names, and remove the files of abandoned ones. Only with the
    job's locks held, and before anything else reads its queries.
    """
    storage = open_storage(job_folder)
    record = _newest_record(storage)
    current = 0 if record is None else record.generation
    for folder_of_records in ("", RESTORES):
        storage.remove_leftovers(folder_of_records)
    if not job_folder.is_local:
        _settle_in_place(job_folder, current)
        return
    folder = job_folder.local()
    with Trust().over(folder, "settle a restore"):
        for uid in query_names(job_folder):
            _settle_query(folder / QUERIES / uid, current)
        settle_logs(folder, current)
        for number in entry_numbers(storage.list(RESTORES)):
            if number > current:
                storage.delete(entry(RESTORES, number))
        restored = None if record is None else read_restored(job_folder, record)
        for uid in () if restored is None else restored.left_behind:
            _leave_behind(folder / QUERIES / uid, current)


def _newest_record(storage: Storage) -> JobRecord | None:
    """*job.json*, which names the generation that counts from now on."""
    data = storage.read(JOB_RECORD)
    if data is None:
        return None
    named = decode(JobRecord, data, storage.where(JOB_RECORD))
    record = newest_generation(storage, named)
    if record != named:
        storage.replace(JOB_RECORD, encode(record))
    return record


def _settle_in_place(job_folder: Folder, current: int) -> None:
    """Let the queries of the current generation begin, and remove what was prepared for others. A start that was paused
    may still write there: then the next start removes that.
    """
    uids, prepared = query_names(job_folder), reserved(open_storage(job_folder))
    for uid in uids if current in prepared else ():
        ledger = open_storage(generation_folder(job_folder / QUERIES / uid, current))
        start = ledger.read(PREPARED_START)
        if start is not None:
            ledger.put_if_absent(START, start)
    for uid in uids:
        queries = open_storage(job_folder / QUERIES / uid)
        for number in generations(job_folder / QUERIES / uid):
            if number in prepared and number != current and queries.look(f"g{number}/{START}") is None:
                queries.clear(f"g{number}")


def _settle_query(folder: Path, current: int) -> None:
    for name in os.listdir(folder):
        if name.startswith(TRASH):
            shutil.rmtree(folder / name)
        elif name.startswith(HIDDEN):
            final = folder / f"g{current}"
            if name == f"{HIDDEN}{current}" and not final.exists():
                os.rename(folder / name, final)
                sync_folder(folder)
            else:
                remove_folder(folder / name)
    with suppress(OSError):  # of an abandoned restore: it holds no generation
        folder.rmdir()


def _leave_behind(folder: Path, current: int) -> None:
    """No later query resumes the work of an earlier query with this uid."""
    for number in generations(Folder.of(folder)):
        if number < current:
            remove_folder(folder / f"g{number}")
    with suppress(OSError):  # a query of the program has its uid now, or it holds a file of the user
        folder.rmdir()
