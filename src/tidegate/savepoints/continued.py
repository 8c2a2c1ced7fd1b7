"""Continues a job whose generation is sealed, in the next generation, where the sealed one has ended.

An opener has sealed the generation, and no other generation counts yet: the opener was killed, or is paused. A start
that asks for nothing opens the next generation itself, as it would have resumed the sealed one. So the opener loses
when it resumes: its record of the next generation is put too late (`succession.open_next`).

The next generation of each query begins with what its recovery would have found, without the seal:

* Spark's checkpoint of the last done epoch. Its two log entries are those of *decided*. The undecided entry
  `offsets/N+1` comes along: where a source begins may be logged nowhere else. State files without unique names are
  compared with what the ledger says of them (`checkpoints.state_proof`).
* a ledger that begins as if it had done that epoch, with the evidence and the accepted operators of the older one.
* *start* of the older generation, with the epoch behind the last one.

A query that has not begun begins in the next generation. The steps are those of a restore (`savepoints.restore`), off a
disk only: on a disk locks prove that no opener is paused, and nothing is sealed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tidegate.checkpoints.done_epoch import seal_of
from tidegate.checkpoints.job_layout import QUERIES, generation_folder, query_names
from tidegate.checkpoints.overwritten import state_overwritten
from tidegate.checkpoints.spark_layout import commits_entry, entry_numbers, offsets_entry
from tidegate.checkpoints.state_proof import flaws_in, named_state, version_of
from tidegate.checkpoints.succession import reserve
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import DECIDED, OPERATORS, RUNS, entry
from tidegate.core.ledger_names import FINISHED_THROUGH, PREPARED_START, START
from tidegate.core.records import Decided, FinishedThrough, JobRecord, Run, Start, decode, encode
from tidegate.disk.side_by_side import side_by_side
from tidegate.savepoints.fresh import highest_generation, runs_of
from tidegate.savepoints.hold import is_of
from tidegate.savepoints.operator_metadata import moved_to, names_schemas
from tidegate.savepoints.restore import NOT_RESTORED, switch
from tidegate.savepoints.restored import read_restored
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


def is_sealed(job_folder: Folder, record: JobRecord) -> bool:
    """True if nothing can be decided any more in the generation of `record`, by one of its queries."""
    if job_folder.is_local:
        return False
    ledgers = (_ledger(job_folder, uid, record.generation) for uid in query_names(job_folder))
    return any(seal_of(ledger) is not None for ledger in ledgers)


def next_after(job_folder: Folder, record: JobRecord) -> JobRecord:
    """The job in the generation that continues the one of `record`."""
    number = max(record.generation, highest_generation(job_folder)) + 1
    return msgspec.structs.replace(record, generation=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuing:
    """A generation whose queries are all sealed, and the one that continues it. `run`: stands for all earlier runs of a
    query; each query has its own number. `reach` is called after each step.
    """

    job_folder: Folder
    older: JobRecord
    newer: JobRecord
    run: Run
    reach: Callable[[str], None] = lambda _step: None


def open_continuation(continuing: Continuing) -> None:
    """Open the next generation. Only with the job's lease held. Raises GENERATION_SEALED if another start was faster,
    STATE_OVERWRITTEN, and storage errors.
    """
    folder, older, newer = continuing.job_folder, continuing.older, continuing.newer
    reserve(folder, older, newer)
    prepared = [uid for uid in query_names(folder) if _continue_query(continuing, uid)]
    continuing.reach("restore.recorded")
    restored = read_restored(folder, older)
    if restored is not None:  # what it allows, and which savepoint it is from, stays true
        restored = msgspec.structs.replace(restored, generation=newer.generation)
    switch(folder, restored, older, newer, prepared, continuing.reach)


def last_epoch(ledger: Storage) -> int:
    """The last epoch of a sealed generation; -1 if it has none. Raises GENERATION_SEALED if the seal is not there."""
    seal = seal_of(ledger)
    if seal is None:
        raise TidegateError(
            Code.GENERATION_SEALED,
            expected="a sealed generation, which another one continues",
            found="no seal",
            where=ledger.where(DECIDED),
        )
    return seal.epoch - 1


def _continue_query(continuing: Continuing, uid: str) -> bool:
    """Prepare the query in the new generation. False if it has not begun in the older one."""
    folder, older, newer = continuing.job_folder, continuing.older, continuing.newer
    before, after = _ledger(folder, uid, older.generation), _ledger(folder, uid, newer.generation)
    start = record_in(before, Start, START)
    if start is None:
        return False
    last = last_epoch(before)
    decided = _decided(before, last)
    _copy_checkpoint(continuing, uid, last, decided)
    number = max(runs_of(folder, uid), default=0)
    if number:
        after.put_if_absent(entry(RUNS, number), encode(msgspec.structs.replace(continuing.run, run=number)))
    for each in entry_numbers(before.list(OPERATORS)):
        after.put_if_absent(entry(OPERATORS, each), _demanded(before, entry(OPERATORS, each)))
    if decided is not None:
        after.put_if_absent(entry(DECIDED, last), encode(decided))
        after.replace(FINISHED_THROUGH, encode(_finished(before, last, older.generation)))
    begins = msgspec.structs.replace(start, generation=newer.generation, first_epoch=last + 1)
    after.put_if_absent(PREPARED_START, encode(begins))
    return True


def _copy_checkpoint(continuing: Continuing, uid: str, last: int, decided: Decided | None) -> None:
    """Copy the files of the last epoch inside of the storage, and the undecided entry behind it."""
    folders = [
        generation_folder(continuing.job_folder / QUERIES / uid, each.generation) / "spark"
        for each in (continuing.older, continuing.newer)
    ]
    source, target = (open_checkpoint_files(each) for each in folders)
    named = named_state(_ledger(continuing.job_folder, uid, continuing.older.generation))
    undecided = open_storage(folders[0]).read(offsets_entry(last + 1))  # before the logs of sources that it refers to
    names = [each.name for each in source.list() if is_of(each.name, last) and each.name not in NOT_RESTORED]

    def copy(name: str) -> bool:
        if names_schemas(name):
            return _copy_moved(open_storage(folders[0]), target, name, folders[1].for_spark())
        if named and version_of(name) is not None and name not in named:
            return False  # a snapshot that no record names: the deltas are there instead
        return source.hold(name, target.where())

    came = {name for name, there in zip(names, side_by_side(copy, names), strict=True) if there}
    if gone := {offsets_entry(last - 1)} & {*names} - came:
        raise _removed(source.where(gone.pop()))
    if flaws := flaws_in(target, source, named, last):
        raise state_overwritten(flaws, continuing.job_folder)
    if decided is not None:
        target.write(offsets_entry(last), decided.offsets)
        target.write(commits_entry(last), decided.commits)
    if undecided is not None:
        target.write(offsets_entry(last + 1), undecided)
    target.sync()


def _copy_moved(source: Storage, target: CheckpointFiles, name: str, final: str) -> bool:
    """Copy metadata that has absolute paths. A checksum beside it would be wrong, and is left out."""
    data = source.peek(name)
    if data is not None and not name.endswith(".crc"):
        target.write(name, moved_to(data, final, source.where(name)))
    return data is not None


def _decided(ledger: Storage, last: int) -> Decided | None:
    if last < 0:
        return None
    return decode(Decided, _demanded(ledger, entry(DECIDED, last)), ledger.where(entry(DECIDED, last)))


def _finished(ledger: Storage, last: int, generation: int) -> FinishedThrough:
    """*finished_through* of the new generation: the evidence is of the older one, or of one before."""
    finished = record_in(ledger, FinishedThrough, FINISHED_THROUGH)
    sinks = {} if finished is None else finished.sinks
    named = {
        uid: msgspec.structs.replace(each, generation=each.generation or generation) for uid, each in sinks.items()
    }
    return FinishedThrough(epoch=last, sinks=named)


def _ledger(job_folder: Folder, uid: str, generation: int) -> Storage:
    return open_storage(generation_folder(job_folder / QUERIES / uid, generation))


def _demanded(ledger: Storage, name: str) -> bytes:
    data = ledger.read(name)
    if data is None:
        raise _removed(ledger.where(name))
    return data


def _removed(where: str) -> TidegateError:
    return TidegateError(
        Code.RECORD_CORRUPT,
        expected="every record of the last epoch of a sealed generation",
        found="no such file",
        where=where,
        next_step="put it back from a copy, or go back to a savepoint: tidegate run -s PATH APP",
    )
