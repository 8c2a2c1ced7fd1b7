"""The part of a restore that every start completes: the generation that counts gets its place, abandoned ones go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tidegate.checkpoints.job_layout import (
    GENERATIONS,
    JOB_RECORD,
    QUERIES,
    RESTORES,
    generation_folder,
    generations,
    query_names,
)
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.checkpoints.succession import (
    OPENINGS,
    give_up,
    named_by_job_record,
    newest_generation,
    preparation_of,
    reserved,
    standing,
)
from tidegate.core.errors import raise_all
from tidegate.core.ledger import START, entry, start_missing
from tidegate.core.ledger_names import PREPARED_START
from tidegate.core.records import JobRecord, encode
from tidegate.disk.durable import TRASH, Trust, remove_folder, sync_folder
from tidegate.savepoints.ingest_restore import settle_logs
from tidegate.savepoints.ingest_restore_elsewhere import settle_logs_elsewhere
from tidegate.savepoints.preparing import HIDDEN
from tidegate.savepoints.restored import read_restored
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


def settle(job_folder: Folder) -> None:
    """Complete the restore whose generation *job.json* names, and remove the files of abandoned ones. Only with the
    job's locks held, and before anything else reads its queries.
    """
    storage = open_storage(job_folder)
    record = _caught_up(job_folder, storage)
    current = 0 if record is None else record.generation
    for folder_of_records in ("", RESTORES, GENERATIONS, OPENINGS):
        storage.remove_leftovers(folder_of_records)
    if not job_folder.is_local:
        _settle_in_place(job_folder, current)
        settle_logs_elsewhere(job_folder, current)
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


def demand_starts(job_folder: Folder, record: JobRecord) -> None:
    """Let each query begin with the *start* that this generation was opened with, as `settle` does: it may count since
    then. On a disk it does nothing.

    Raises RECORD_CORRUPT if that *start* is gone: the query would begin at epoch 0, and repeat its rows.
    """
    ready = None if job_folder.is_local else preparation_of(open_storage(job_folder), record.generation)
    folders = [job_folder / QUERIES / uid for uid in (() if ready is None else ready.queries)]
    ledgers = [open_storage(generation_folder(each, record.generation)) for each in folders]
    lost = [ledger.where(START) for ledger in ledgers if not _begins(ledger)]
    raise_all([start_missing("neither it nor `prepared_start`", where) for where in lost], f"job {record.name}")


def _begins(ledger: Storage) -> bool:
    """Put the *start* that is prepared in this ledger. False if there is none, and no other one."""
    start = ledger.read(PREPARED_START)
    if start is not None:
        ledger.put_if_absent(START, start)
    return start is not None or ledger.look(START) is not None


def _caught_up(job_folder: Folder, storage: Storage) -> JobRecord | None:
    """The job, in the generation that counts from now on. *job.json* names it."""
    named = named_by_job_record(storage)
    record = standing(job_folder)
    if job_folder.is_local and record is not None:
        record = newest_generation(storage, record)
    if record is not None and record != named:
        storage.replace(JOB_RECORD, encode(record))
    return record


def _settle_in_place(job_folder: Folder, current: int) -> None:
    """Let the queries of the current generation begin, and remove what was prepared for generations that never count,
    also those of which nothing is seen yet: this start removes their ingest logs. A start that was paused may still
    write there: then the next start removes that.
    """
    storage = open_storage(job_folder)
    uids, taken = query_names(job_folder), reserved(storage)
    for uid in uids if current in taken else ():
        _begins(open_storage(generation_folder(job_folder / QUERIES / uid, current)))
    above = {number for number in taken if number > current}
    for number in above | (_unbegun(job_folder, uids) & set(taken) - {current}):
        if give_up(storage, number):
            for uid in uids:
                open_storage(job_folder / QUERIES / uid).clear(f"g{number}")
            storage.delete(entry(RESTORES, number))


def _unbegun(job_folder: Folder, uids: Iterable[str]) -> set[int]:
    """The generations in which a query has a folder and has not begun."""
    found = ((open_storage(job_folder / QUERIES / uid), generations(job_folder / QUERIES / uid)) for uid in uids)
    return {each for query, numbers in found for each in numbers if query.look(f"g{each}/{START}") is None}


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
