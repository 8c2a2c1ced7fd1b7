"""Which generation of a job counts: the record that a restore and `--fresh` put, create-if-absent.

    openings/<G>             a start prepares generation G; no other one prepares under this number
    generation/<job id>.<n>  the generation that follows generation n-1
    job.json                 names it; `settle` catches up if a process died before

An opener has judged the job as it stood in one generation. Meanwhile it may have been paused, and another start may
have opened the next generation. So the record is named by the generation that was judged, not by the prepared one:
of all openers that saw the same generation, one wins. The others have changed nothing that counts. The records stay,
also when the job is forgotten: an opener that wakes up later still loses.
"""

from __future__ import annotations

import msgspec

from tidegate.checkpoints.job_layout import GENERATIONS, JOB_RECORD
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import entry
from tidegate.core.records import GenerationOpened, JobRecord, decode, encode
from tidegate.storages.storage import Storage

OPENINGS = "openings"


def newest_generation(storage: Storage, record: JobRecord) -> JobRecord:
    """`record`, the content of *job.json*, in the generation that counts."""
    found = record
    while (opened := _opened_after(storage, found)) is not None:
        found = msgspec.structs.replace(found, generation=opened.generation)
    return found


def open_next(storage: Storage, older: JobRecord | None, newer: JobRecord) -> None:
    """Make the prepared generation `newer` the job's. `older`: the generation that was judged; None for a new job.

    Raises GENERATION_SEALED if another start was faster.
    """
    if older is None:
        storage.put_if_absent(JOB_RECORD, encode(newer))
        data = storage.read(JOB_RECORD)
        won = data is not None and decode(JobRecord, data, storage.where(JOB_RECORD)) == newer
    else:
        record = GenerationOpened(job_id=older.job_id, after=older.generation, generation=newer.generation)
        storage.put_if_absent(_name(older), encode(record))
        won = _opened_after(storage, older) == record
    if not won:
        raise _slower(storage, newer)


def reserve(storage: Storage, record: JobRecord) -> None:
    """Take the number of the generation to prepare. Raises GENERATION_SEALED if another start has it."""
    reservation = GenerationOpened(job_id=record.job_id, after=0, generation=record.generation)
    if not storage.put_if_absent(entry(OPENINGS, record.generation), encode(reservation)):
        raise _slower(storage, record)


def reserved(storage: Storage) -> list[int]:
    """The generations that starts have prepared, or still prepare."""
    return entry_numbers(storage.list(OPENINGS))


def _opened_after(storage: Storage, record: JobRecord) -> GenerationOpened | None:
    name = _name(record)
    data = storage.read(name)
    return None if data is None else decode(GenerationOpened, data, storage.where(name))


def _name(older: JobRecord) -> str:
    return f"{GENERATIONS}/{older.job_id}.{older.generation + 1}"


def _slower(storage: Storage, newer: JobRecord) -> TidegateError:
    return TidegateError(
        Code.GENERATION_SEALED,
        expected=f"to open generation {newer.generation} of job {newer.name}",
        found="another start has opened a generation meanwhile",
        where=storage.where(),
    )
