"""Which job a folder has, and which generation of it counts: records that are put, create-if-absent.

    generation/<job id>.<n>       the generation that follows generation n-1; or *ended*: the job is given up
    job.json                      names job and generation; `settle` catches up if a process died before

An opener has judged the job as it stood in one generation. Meanwhile it may have been paused, and another start may
have opened the next generation. So the record is named by the generation that was judged, not by the prepared one:
of all openers that saw the same generation, one wins. The others have changed nothing that counts.

On a disk, locks prove that nothing of an opener lives, and *job.json* says which job there is. Elsewhere a process that
was paused resumes at any time. So nothing that counts has a name that two jobs or two openers use:

    generation/<k>                the k-th job of this folder, in its first generation
    generation/<job id>.cleared   what the ended job has left is removed; the next job may begin
    openings/<G>                  a start has taken the number G, for a job: only this start prepares generation G
    openings/<G>.end              *ready*: G is prepared, and may count; or *given up*: it never counts

These records stay, also when the job is forgotten: an opener or a `forget` that wakes up later still loses. There
*job.json* decides nothing: a late process may write an older one, or remove it.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timezone

import msgspec

from tidegate.checkpoints.job_layout import GENERATIONS, JOB_RECORD
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger_names import entry
from tidegate.core.records import (
    GenerationOpened,
    JobEnded,
    JobRecord,
    PreparationEnded,
    decode,
    encode,
    is_of_kind,
)
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

OPENINGS = "openings"


def standing(job_folder: Folder) -> JobRecord | None:
    """The job in this folder, in the generation that counts; None if there is none. On a disk: *job.json*, which
    `settle` keeps up to date.
    """
    storage = open_storage(job_folder)
    named = named_by_job_record(storage)
    if job_folder.is_local:
        return named
    first = _newest_job(storage, named)
    if first is None:
        return None
    return newest_generation(storage, named if named is not None and named.job_id == first.job_id else first)


def named_by_job_record(storage: Storage) -> JobRecord | None:
    """The content of *job.json*."""
    return record_in(storage, JobRecord, JOB_RECORD)


def newest_generation(storage: Storage, record: JobRecord) -> JobRecord | None:
    """`record` in the generation that counts; None if the job has ended. Raises RECORD_CORRUPT for a record that leads
    back: a search would never end.
    """
    found = record
    while (after := _after(storage, found)) is not None:
        if isinstance(after, JobEnded):
            return None
        found = msgspec.structs.replace(found, generation=after.generation)
    return found


# --- opening a generation ----------------------------------------------------------------------------------


def begin_job(job_folder: Folder, record: JobRecord) -> None:
    """Make `record` the job of this folder, if it is not. Raises GENERATION_SEALED if another job has begun here."""
    storage = open_storage(job_folder)
    if not job_folder.is_local and standing(job_folder) != record:
        reserve(job_folder, None, record)
        end_preparation(job_folder, record, ())
        open_next(job_folder, None, record)
    storage.put_if_absent(JOB_RECORD, encode(record))


def demand_standing(job_folder: Folder, judged: JobRecord | None, wanted: JobRecord) -> None:
    """Raise GENERATION_SEALED if the folder has another job or generation than `judged` by now. `wanted`: for the
    message. On a disk it does nothing.
    """
    if not job_folder.is_local and standing(job_folder) != judged:
        raise _slower(open_storage(job_folder), wanted)


def reserve(job_folder: Folder, older: JobRecord | None, record: JobRecord) -> None:
    """Take the number of the generation to prepare. `older`: the generation that was judged; None for a new job. On a
    disk it does nothing. Raises GENERATION_SEALED if another start has the number.
    """
    if job_folder.is_local:
        return
    storage, after = open_storage(job_folder), 0 if older is None else older.generation
    reservation = GenerationOpened(job_id=record.job_id, after=after, generation=record.generation)
    if not storage.put_if_absent(entry(OPENINGS, record.generation), encode(reservation)):
        raise _slower(storage, record)


def end_preparation(job_folder: Folder, record: JobRecord, queries: Collection[str]) -> None:
    """All of the generation is prepared: its files, and the future *start* of these queries. On a disk it does nothing.
    Raises GENERATION_SEALED if a start has given it up, and may remove its files.
    """
    if job_folder.is_local:
        return
    storage = open_storage(job_folder)
    ready = PreparationEnded(generation=record.generation, ready=True, queries=tuple(queries))
    storage.put_if_absent(_end_name(record.generation), encode(ready))
    if preparation_of(storage, record.generation) != ready:
        raise _slower(storage, record)


def open_next(job_folder: Folder, older: JobRecord | None, newer: JobRecord) -> None:
    """Make the prepared generation `newer` the job's. `older`: the generation that was judged; None for a new job.

    Raises GENERATION_SEALED if another start was faster, or the job was forgotten.
    """
    storage = open_storage(job_folder)
    if older is not None:
        record = GenerationOpened(job_id=older.job_id, after=older.generation, generation=newer.generation)
        storage.put_if_absent(_name(older), encode(record))
        won = _after(storage, older) == record
    else:
        name = JOB_RECORD if job_folder.is_local else entry(GENERATIONS, max(_jobs(storage), default=0) + 1)
        if job_folder.is_local or (standing(job_folder) is None and job_to_clear(job_folder) is None):
            storage.put_if_absent(name, encode(newer))
        won = record_in(storage, JobRecord, name) == newer
    if not won:
        raise _slower(storage, newer)


# --- what an opener has left -------------------------------------------------------------------------------


def reserved(storage: Storage) -> list[int]:
    """The numbers of all generations that starts have taken."""
    return entry_numbers(storage.list(OPENINGS))


def reserved_for(storage: Storage, job_id: str) -> list[int]:
    """The numbers that starts have taken for this job."""
    found = ((number, _opening(storage, number)) for number in reserved(storage))
    return [number for number, opening in found if opening is not None and opening.job_id == job_id]


def preparation_of(storage: Storage, generation: int) -> PreparationEnded | None:
    """How the preparation of a generation has ended; None if it has not."""
    return record_in(storage, PreparationEnded, _end_name(generation))


def give_up(storage: Storage, generation: int) -> bool:
    """Give up a generation that another start has taken and not prepared to its end. True if it never counts: its files
    can be removed, at any time.
    """
    given_up = PreparationEnded(generation=generation, ready=False)
    storage.put_if_absent(_end_name(generation), encode(given_up))
    ended, opening = preparation_of(storage, generation), _opening(storage, generation)
    if ended is None or not ended.ready or opening is None:
        return ended is not None and not ended.ready
    if opening.after == 0:
        return False  # it has no files
    judged = JobRecord(name="", job_id=opening.job_id, generation=opening.after)
    after = _after(storage, judged)
    return after is not None and (isinstance(after, JobEnded) or after.generation != generation)


# --- the end of a job, where locks prove nothing -----------------------------------------------------------


def end_job(job_folder: Folder, job_id: str) -> None:
    """No generation of this job counts any more. Nothing happens if it has ended, or if another job is here."""
    storage = open_storage(job_folder)
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    while (record := standing(job_folder)) is not None and record.job_id == job_id:
        storage.put_if_absent(_name(record), encode(JobEnded(job_id=job_id, after=record.generation, since=since)))


def job_to_clear(job_folder: Folder) -> str | None:
    """The id of the job that has ended here and has not been removed yet; None if there is none."""
    storage = open_storage(job_folder)
    job = _newest_job(storage, named_by_job_record(storage))
    if job is None or newest_generation(storage, job) is not None:
        return None
    return None if was_forgotten(job_folder, job.job_id) else job.job_id


def end_clearing(job_folder: Folder, job_id: str) -> None:
    """All that the ended job has left is removed."""
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    ended = JobEnded(job_id=job_id, after=0, since=since)
    open_storage(job_folder).put_if_absent(_cleared_name(job_id), encode(ended))


def was_forgotten(job_folder: Folder, job_id: str) -> bool:
    """True if a job of this id has ended here, and is removed: no other one may have the id. On a disk it is False."""
    return not job_folder.is_local and open_storage(job_folder).look(_cleared_name(job_id)) is not None


# --- names and reads ---------------------------------------------------------------------------------------


def _newest_job(storage: Storage, named: JobRecord | None) -> JobRecord | None:
    """The newest job of this folder, in its first generation. A folder without numbered jobs was put there by hand:
    there *job.json* counts.
    """
    numbers = _jobs(storage)
    if not numbers:
        return named
    return record_in(storage, JobRecord, entry(GENERATIONS, numbers[-1]))


def _jobs(storage: Storage) -> list[int]:
    return entry_numbers(storage.list(GENERATIONS))


def _after(storage: Storage, record: JobRecord) -> GenerationOpened | JobEnded | None:
    name = _name(record)
    data = storage.read(name)
    if data is None:
        return None
    found = decode(JobEnded if is_of_kind(JobEnded, data) else GenerationOpened, data, storage.where(name))
    if isinstance(found, GenerationOpened) and found.generation <= record.generation:
        raise TidegateError(
            Code.RECORD_CORRUPT,
            expected=f"a generation above {record.generation}, which it follows",
            found=f"generation {found.generation}",
            where=storage.where(name),
            next_step="put the folder of the job back from a copy; or start under another job name",
        )
    return found


def _opening(storage: Storage, generation: int) -> GenerationOpened | None:
    return record_in(storage, GenerationOpened, entry(OPENINGS, generation))


def _name(older: JobRecord) -> str:
    return f"{GENERATIONS}/{older.job_id}.{older.generation + 1}"


def _cleared_name(job_id: str) -> str:
    return f"{GENERATIONS}/{job_id}.cleared"


def _end_name(generation: int) -> str:
    return f"{entry(OPENINGS, generation)}.end"


def _slower(storage: Storage, newer: JobRecord) -> TidegateError:
    return TidegateError(
        Code.GENERATION_SEALED,
        expected=f"to open generation {newer.generation} of job {newer.name}",
        found="another start has opened a generation meanwhile, or the job was forgotten",
        where=storage.where(),
    )
