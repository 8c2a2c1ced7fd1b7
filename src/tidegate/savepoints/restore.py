"""Opens a new generation of a job from a savepoint: the old one stays in force until one file is replaced.

    queries/<uid>/.restored-g<G>/   Spark's checkpoint and the ledger of generation G, put together under a hidden name
    restores/<G>                    what it was opened from
    job.json                        names generation G: from here on it counts, and no older one
    queries/<uid>/g<G>              the hidden folder, renamed; `ingest_restore` does the same for ingest logs

Killed before *job.json*, the next start finds folders that it names no generation of, and removes them; killed after
it, the next start completes the renames. `settle` is that part of every start.

A generation begins as if its last epoch had been done in it: *start* with the epoch behind it, *decided* with the bytes
of Spark's entries (so recovery mends them, adds a no-data epoch that is due, and the first epoch is compared with
where they end), *finished_through* with what the sinks have to have of the generations before. What those have
committed is theirs: beyond that nothing of it is carried over.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.job_layout import JOB_RECORD, QUERIES, RESTORES, generation_folder, generations, query_names
from tidegate.checkpoints.spark_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    checksum_of,
    commits_entry,
    entry_numbers,
    offsets_entry,
)
from tidegate.checkpoints.sync import sync_whole
from tidegate.core.effects import Happening
from tidegate.core.errors import Code
from tidegate.core.ledger import DECIDED, FINISHED_THROUGH, OPERATORS, RUNS, START, entry
from tidegate.core.records import (
    Decided,
    FileFlaw,
    FinishedThrough,
    JobRecord,
    OperatorsAccepted,
    Restored,
    Run,
    SavedFile,
    SavedQuery,
    Start,
    decode,
    encode,
)
from tidegate.core.start_happenings import RestoreMoved
from tidegate.disk.durable import TRASH, Trust, ensure_folder, remove_folder, sync_folder
from tidegate.disk.linking import linked
from tidegate.disk.side_by_side import side_by_side
from tidegate.savepoints.folder import Savepoint, manifest_digest
from tidegate.savepoints.ingest_restore import JoinedLog, prepare_log, settle_logs
from tidegate.savepoints.log_change import with_operators, with_sources
from tidegate.savepoints.operator_metadata import moved_name, moved_to, names_operator, names_schemas, renumbered
from tidegate.savepoints.proof import copy_verified, flaw_at
from tidegate.savepoints.restored import read_restored
from tidegate.savepoints.restoring_sinks import begins_with
from tidegate.storages.opening import open_storage

_HIDDEN = ".restored-g"
_NOT_RESTORED = frozenset({METADATA, checksum_of(METADATA)})
"""Spark's id of a query: two that are alive must not share one. Recovery writes another."""
_COPY_AGAIN = "copy the savepoint again from where it is whole; nothing of the job was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredQuery:
    """A query of the program and the saved query that it resumes. `run`: the number that stands for all earlier runs;
    its own numbers are above it. `places`: by position of a source in Spark's plan, that of the same source in the
    savepoint; None for one that begins anew. `accepted`: which operators compute something else now; None where none
    does. `operators`: by the number of a stateful operator in the savepoint, the one that it has now; None where all
    have theirs. `make_empty` makes a checkpoint of epoch 0 with empty state, in this folder; None where the state comes
    along, and the epoch keeps its number."""

    uid: str
    saved: SavedQuery
    start: Start
    run: Run
    places: tuple[int | None, ...]
    accepted: OperatorsAccepted | None = None
    operators: Mapping[int, int] | None = None
    make_empty: Callable[[Path], None] | None = None

    @property
    def epoch(self) -> int:
        """The epoch behind which it resumes."""
        return self.saved.done.epoch if self.make_empty is None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """A restore that nothing stands against. `record` is *job.json* as it will be; `link`: files are linked where the
    disk can. `rewind`: the id that allows it to go back. `renamed`: uids in the savepoint, and those of now. `program`:
    the uids of all its queries, also of those that begin anew. `logs`: the ingest logs that its sources continue.
    `rewrite` may put another checkpoint in the place of the one that was copied, durable. `reach` is told of the steps,
    each durable before the next; `tell` hears of each file that was restored, for copying can take long."""

    job_folder: Path
    savepoint: Savepoint
    record: JobRecord
    queries: Sequence[RestoredQuery]
    left_behind: tuple[str, ...] = ()
    link: bool = False
    rewind: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    program: tuple[str, ...] = ()
    logs: tuple[JoinedLog, ...] = ()
    rewrite: Callable[[RestoredQuery, Path], None] = lambda _query, _checkpoint: None
    reach: Callable[[str], None] = lambda _step: None
    tell: Callable[[Happening], None] = lambda _happening: None


def prepare(restoring: Restoring) -> Mapping[str, Path]:
    """Put the new generation together, hidden and durable; Spark's checkpoint of each query, by uid. Every file is
    compared with the manifest on the way. Only with the job's locks held.

    Raises SAVEPOINT_INCOMPLETE, SAVEPOINT_ALTERED, SAVEPOINT_REFUSED, and what the disk has to say.
    """
    with Trust().over(restoring.job_folder, "restore a savepoint"):
        number = restoring.record.generation
        hidden = {query.uid: hidden_folder(restoring.job_folder, query.uid, number) for query in restoring.queries}
        for query in restoring.queries:
            remove_folder(hidden[query.uid])
            _restore_files(restoring, query, hidden[query.uid] / "spark")
        for file in restoring.savepoint.record.files if restoring.logs else ():
            if file.name.startswith(f"{INGEST}/"):
                _proven(restoring.savepoint.folder / file.name, file)
        for log in restoring.logs:
            prepare_log(restoring.job_folder, restoring.record.generation, log)
        restoring.reach("restore.copied")
        for query in restoring.queries:
            restoring.rewrite(query, hidden[query.uid] / "spark")
        restoring.reach("restore.rewritten")
        for query in restoring.queries:
            _write_ledger(restoring, query, hidden[query.uid])
        restoring.reach("restore.recorded")
    return {uid: folder / "spark" for uid, folder in hidden.items()}


def commit(restoring: Restoring) -> None:
    """Let the new generation count: what `prepare` has put together becomes the job's, at once for all queries."""
    restored = Restored(
        job_id=restoring.record.job_id,
        generation=restoring.record.generation,
        savepoint=str(restoring.savepoint.found_at),
        digest=manifest_digest(restoring.savepoint.folder),
        at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        epochs={query.uid: query.epoch for query in restoring.queries},
        left_behind=restoring.left_behind,
        rewind=restoring.rewind,
        renamed=dict(restoring.renamed),
        program=restoring.program,
    )
    switch(restoring.job_folder, restored, restoring.record, restoring.reach)


def switch(job_folder: Path, restored: Restored, record: JobRecord, reach: Callable[[str], None]) -> None:
    """The steps in which a generation comes to count, whatever its hidden folders hold."""
    storage = open_storage(job_folder)
    storage.replace(entry(RESTORES, record.generation), encode(restored))
    reach("restore.noted")
    storage.replace(JOB_RECORD, encode(record))
    reach("restore.switched")
    settle(job_folder)
    reach("restore.renamed")


def settle(job_folder: Path) -> None:
    """Finish the restore whose generation *job.json* names, and remove what others have left. Only with the job's
    locks held, and before anything else looks at its queries."""
    storage = open_storage(job_folder)
    data = storage.read(JOB_RECORD)
    record = None if data is None else decode(JobRecord, data, storage.where(JOB_RECORD))
    current = 0 if record is None else record.generation
    for folder_of_records in ("", RESTORES):
        storage.remove_leftovers(folder_of_records)
    with Trust().over(job_folder, "settle a restore"):
        for folder in (job_folder / QUERIES / uid for uid in query_names(job_folder)):
            if folder.is_dir():
                _settle_query(folder, current)
        settle_logs(job_folder, current)
        for number in entry_numbers(storage.list(RESTORES)):
            if number > current:
                storage.delete(entry(RESTORES, number))
        restored = None if record is None else read_restored(job_folder, record)
        for uid in () if restored is None else restored.left_behind:
            _leave_behind(job_folder / QUERIES / uid, current)


# --- the files ---------------------------------------------------------------------------------------------


def hidden_folder(job_folder: Path, uid: str, generation: int) -> Path:
    """Where the folder of a new generation of a query is put together."""
    return job_folder / QUERIES / uid / f"{_HIDDEN}{generation}"


def _restore_files(restoring: Restoring, query: RestoredQuery, checkpoint: Path) -> None:
    ensure_folder(checkpoint)
    if query.make_empty is not None:
        query.make_empty(checkpoint)
        restoring.tell(RestoreMoved(f"{checkpoint}, restored"))
    prefix = f"{QUERIES}/{query.saved.done.query}/spark/"
    # The path that it will have: the hidden name is given up.
    final = generation_folder(restoring.job_folder / QUERIES / query.uid, restoring.record.generation) / "spark"
    tables = f"{QUERIES}/{query.saved.done.query}/state/"

    def restore(file: SavedFile) -> Path | None:
        name = file.name.removeprefix(prefix)
        now = _name_now(name, query) if file.name.startswith(prefix) else None
        if now is not None:
            target = checkpoint / now
            target.parent.mkdir(parents=True, exist_ok=True)
            _restore_file(restoring, file, target, _change_of(name, query, final))
            return target
        if file.name.startswith(tables):
            return _proven(restoring.savepoint.folder / file.name, file)
        return None

    for path in side_by_side(restore, restoring.savepoint.record.files):
        if path is not None:
            restoring.tell(RestoreMoved(f"{path}, restored"))
    sync_whole(checkpoint)


def _name_now(name: str, query: RestoredQuery) -> str | None:
    """The name of a file in the new checkpoint; None for one that does not come along."""
    root, _, below = name.partition("/")
    if root != SOURCES:
        if name in _NOT_RESTORED or query.make_empty is not None:
            return None
        return name if query.operators is None else moved_name(name, query.operators)
    place, _, rest = below.partition("/")
    now = [number for number, before in enumerate(query.places) if str(before) == place]
    return f"{SOURCES}/{now[0]}/{rest}" if now else None


def _change_of(name: str, query: RestoredQuery, final: Path) -> Callable[[bytes, str], bytes] | None:
    """What becomes of the bytes of a file, which has a checksum of Spark's beside it; None where they stay."""
    if query.operators is not None and names_operator(name):
        return partial(_renumbered, query.operators, final if names_schemas(name) else None)
    if names_schemas(name):
        return lambda data, where: moved_to(data, final, where)
    if query.operators is not None and name.startswith(f"{COMMITS}/"):
        return partial(_entry, partial(with_operators, places=query.operators))
    if name.startswith(f"{OFFSETS}/") and query.places != tuple(range(len(query.saved.done.sources))):
        return partial(_entry, partial(with_sources, places=query.places))
    return None


def _entry(change: Callable[[bytes], bytes], data: bytes, where: str) -> bytes:
    try:
        return change(data)
    except (ValueError, IndexError) as error:
        raise FileFlaw(Code.RECORD_CORRUPT, "a whole entry of Spark's log", str(error)).error(
            where, _COPY_AGAIN
        ) from None


def _renumbered(places: Mapping[int, int], final: Path | None, data: bytes, where: str) -> bytes:
    changed = renumbered(data, places, where)
    return changed if final is None else moved_to(changed, final, where)


def _restore_file(
    restoring: Restoring, file: SavedFile, target: Path, change: Callable[[bytes, str], bytes] | None
) -> None:
    source = restoring.savepoint.folder / file.name
    try:
        if change is not None:
            data = source.read_bytes()
            _refuse(file.flaw(len(data), hashlib.sha256(data).hexdigest()), source)
            if not target.name.endswith(".crc"):
                target.write_bytes(change(data, str(source)))
        elif restoring.link and linked(source, target):
            _refuse(flaw_at(target, file), source)
        else:
            with source.open("rb", buffering=0) as read:
                _refuse(copy_verified(read, target, file), source)
    except FileNotFoundError:
        _refuse(file.shortage(None), source)


def _proven(path: Path, file: SavedFile) -> Path:
    """A file of the savepoint that is read where it is. Raises SAVEPOINT_INCOMPLETE and SAVEPOINT_ALTERED."""
    _refuse(flaw_at(path, file), path)
    return path


def _refuse(flaw: FileFlaw | None, source: Path) -> None:
    if flaw is not None:
        raise flaw.error(str(source), _COPY_AGAIN) from None


# --- the ledger --------------------------------------------------------------------------------------------


def _write_ledger(restoring: Restoring, query: RestoredQuery, generation: Path) -> None:
    spark, storage = generation / "spark", open_storage(generation)
    decided = Decided(
        epoch=query.epoch,
        run=query.saved.done.run,
        prepared_digest=manifest_digest(restoring.savepoint.folder),  # what it was decided on, here
        offsets=(spark / offsets_entry(query.epoch)).read_bytes(),
        commits=(spark / commits_entry(query.epoch)).read_bytes(),
        state_rows={} if query.make_empty is not None else query.saved.done.state_rows,
        operator_uids={} if query.make_empty is not None else query.saved.done.operator_uids,
    )
    storage.put_if_absent(entry(RUNS, query.run.run), encode(query.run))
    storage.put_if_absent(entry(DECIDED, query.epoch), encode(decided))
    saved = restoring.savepoint.record
    written = begins_with(saved, restoring.record, query.uid, query.start.sinks, query.saved)
    storage.replace(FINISHED_THROUGH, encode(FinishedThrough(epoch=query.epoch, sinks=written)))
    storage.put_if_absent(START, encode(query.start))
    if query.accepted is not None:
        storage.put_if_absent(entry(OPERATORS, 1), encode(query.accepted))


# --- afterwards --------------------------------------------------------------------------------------------


def _settle_query(folder: Path, current: int) -> None:
    for name in os.listdir(folder):
        if name.startswith(TRASH):
            shutil.rmtree(folder / name)
        elif name.startswith(_HIDDEN):
            final = generation_folder(folder, current)
            if name == f"{_HIDDEN}{current}" and not final.exists():
                os.rename(folder / name, final)
                sync_folder(folder)
            else:
                remove_folder(folder / name)
    with suppress(OSError):  # of a restore that came to nothing: no generation is in it
        folder.rmdir()


def _leave_behind(folder: Path, current: int) -> None:
    """No later query resumes the work of an earlier query with this uid."""
    for number in generations(folder):
        if number < current:
            remove_folder(generation_folder(folder, number))
    with suppress(OSError):  # a query of the program has its uid now, or the user has put something there
        folder.rmdir()
