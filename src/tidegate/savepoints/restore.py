"""Opens a new generation of a job from a savepoint: the old one stays in force until one record is put.

    queries/<uid>/.restored-g<G>/   Spark's checkpoint and the ledger of generation G, prepared under a hidden name
    restores/<G>                    the savepoint of this generation
    generation/<job id>.<n>         from here on generation G counts, no older one (`succession`); *job.json* follows
    queries/<uid>/g<G>              the hidden folder, renamed; `ingest_restore` does the same for ingest logs

HDFS and S3 rename no folder. There generation G is prepared in its own place, under a number that no other start
prepares (*openings/G*), and without *start*: no query has begun in it. What is built on this machine first is copied
there, and each copy is compared by size and SHA-256.

After a kill before the generation counts, the next start removes what was prepared. After a kill behind it, the next
start completes the renames, or puts *start*. `settle` is that part of every start. An opener that was paused may find
that a start has removed what it prepared (*openings/G.end*): then it goes no further.

A generation begins as if its last epoch had been done in it. *start* has the epoch behind it. *decided* has the bytes
of Spark's entries: so recovery repairs them, adds a due no-data epoch, and compares the first epoch with their end.
*finished_through* has the evidence that the sinks must hold from the generations before. Nothing else is carried over
from these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.job_layout import JOB_RECORD, QUERIES, RESTORES, generation_folder
from tidegate.checkpoints.spark_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    checksum_of,
    commits_entry,
    offsets_entry,
)
from tidegate.checkpoints.succession import end_preparation, open_next, reserve
from tidegate.checkpoints.sync import sync_whole
from tidegate.core.effects import Happening
from tidegate.core.errors import Code
from tidegate.core.ledger import DECIDED, FINISHED_THROUGH, OPERATORS, RUNS, entry
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
    encode,
)
from tidegate.core.start_happenings import RestoreMoved
from tidegate.disk.durable import Trust, ensure_folder, remove_folder
from tidegate.disk.linking import linked
from tidegate.disk.side_by_side import side_by_side
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.ingest_join import JoinedLog
from tidegate.savepoints.ingest_restore import prepare_log
from tidegate.savepoints.ingest_restore_elsewhere import prepare_logs_elsewhere
from tidegate.savepoints.log_change import with_operators, with_sources
from tidegate.savepoints.operator_metadata import moved_name, moved_to, names_operator, names_schemas, renumbered
from tidegate.savepoints.preparing import bring, hidden_folder, ledger_of
from tidegate.savepoints.proof import copy_verified, flaw_at
from tidegate.savepoints.restoring_sinks import begins_with
from tidegate.savepoints.settled import settle
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

NOT_RESTORED = frozenset({METADATA, checksum_of(METADATA)})
"""Spark's id of a query. Two running queries must not share one, so recovery writes a new one."""
_COPY_AGAIN = "copy the savepoint again from a complete copy; nothing of the job was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredQuery:
    """A query of the program and the saved query that it resumes.

    `run`: the number that stands for all earlier runs; later runs have higher numbers. `places`: by position of a
    source in Spark's plan, the position of the same source in the savepoint; None for one that begins again.
    `accepted`: the record of operators with an accepted difference; None if there are none. `operators`: by number of a
    stateful operator in the savepoint, its current number; None if all are unchanged. `in_job`: sinks whose rows
    only the job reads: no evidence of them must be there. `make_empty`: makes a checkpoint
    of epoch 0 with empty state in this folder; None if the state is restored, and the epoch keeps its number.
    """

    uid: str
    saved: SavedQuery
    start: Start
    run: Run
    places: tuple[int | None, ...]
    accepted: OperatorsAccepted | None = None
    operators: Mapping[int, int] | None = None
    in_job: frozenset[str] = frozenset()
    make_empty: Callable[[Path], None] | None = None

    @property
    def epoch(self) -> int:
        """The number of the saved epoch; the restored query resumes after it."""
        return self.saved.done.epoch if self.make_empty is None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """A checked restore.

    `record`: the new *job.json*; `older`: the one that was judged, None for a new job. `link`: link files if the disk
    supports it. `rewind`: the id that allows the job to go back. `renamed`: uids in the savepoint, with their current
    uids. `program`: the uids of all its queries, also of new ones. `logs`: the ingest logs that its sources continue.
    `aside`: a folder on this machine for a job that is not on a local disk. `rewrite` may replace the copied checkpoint
    by another one, durably. `reach` is called after each step, which is durable by then. `tell` is called for each
    restored file, because the copy can take long.
    """

    job_folder: Folder
    savepoint: Savepoint
    record: JobRecord
    older: JobRecord | None
    queries: Sequence[RestoredQuery]
    left_behind: tuple[str, ...] = ()
    link: bool = False
    rewind: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    program: tuple[str, ...] = ()
    logs: tuple[JoinedLog, ...] = ()
    aside: Path | None = None
    rewrite: Callable[[RestoredQuery, Path], None] = lambda _query, _checkpoint: None
    reach: Callable[[str], None] = lambda _step: None
    tell: Callable[[Happening], None] = lambda _happening: None


def prepare(restoring: Restoring) -> Mapping[str, Path]:
    """Prepare the new generation, hidden and durable. Returns Spark's checkpoint of each query, by uid. Every file is
    compared with the manifest. Only with the job's locks held.

    Raises SAVEPOINT_INCOMPLETE, SAVEPOINT_ALTERED, SAVEPOINT_REFUSED, and storage errors.
    """
    folder = restoring.job_folder
    with Trust().over(restoring.aside or folder.local(), "restore a savepoint"):
        if not folder.is_local:
            reserve(folder, restoring.older, restoring.record)
        built = {query.uid: _built_in(restoring, query.uid) for query in restoring.queries}
        for query in restoring.queries:
            remove_folder(built[query.uid])
            _restore_files(restoring, query, built[query.uid] / "spark")
        for file in restoring.savepoint.record.files if restoring.logs else ():
            if file.name.startswith(f"{INGEST}/"):
                _proven(restoring.savepoint.folder / file.name, file)
        _prepare_logs(restoring)
        restoring.reach("restore.copied")
        for query in restoring.queries:
            restoring.rewrite(query, built[query.uid] / "spark")
        restoring.reach("restore.rewritten")
        for query in restoring.queries:
            if not folder.is_local:
                place = _final(restoring, query.uid) / "spark"
                for file in bring(built[query.uid] / "spark", place):
                    restoring.tell(RestoreMoved(f"{file}, restored"))
            _write_ledger(restoring, query, built[query.uid])
        restoring.reach("restore.recorded")
    return {uid: folder / "spark" for uid, folder in built.items()}


def commit(restoring: Restoring) -> None:
    """Make the new generation count: the prepared folders become the job's, at once for all queries."""
    restored = Restored(
        job_id=restoring.record.job_id,
        generation=restoring.record.generation,
        savepoint=str(restoring.savepoint.found_at),
        digest=restoring.savepoint.digest,
        at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        epochs={query.uid: query.epoch for query in restoring.queries},
        left_behind=restoring.left_behind,
        rewind=restoring.rewind,
        renamed=dict(restoring.renamed),
        program=restoring.program,
        in_flight=dict(restoring.savepoint.in_flight),
    )
    prepared = [query.uid for query in restoring.queries]
    switch(restoring.job_folder, restored, restoring.older, restoring.record, prepared, restoring.reach)


def switch(
    job_folder: Folder,
    restored: Restored | None,
    older: JobRecord | None,
    record: JobRecord,
    prepared: Collection[str],
    reach: Callable[[str], None],
) -> None:
    """The steps that make a generation count, for any contents of its folders. Off a disk the older one is sealed.
    `restored`: None for a generation without a savepoint. `prepared`: the queries whose *start* is prepared.
    """
    storage = open_storage(job_folder)
    if restored is not None:
        storage.replace(entry(RESTORES, record.generation), encode(restored))
    reach("restore.noted")
    end_preparation(job_folder, record, prepared)
    open_next(job_folder, older, record)
    reach("restore.opened")
    storage.replace(JOB_RECORD, encode(record))
    reach("restore.switched")
    settle(job_folder)
    reach("restore.renamed")


# --- the files ---------------------------------------------------------------------------------------------


def _built_in(restoring: Restoring, uid: str) -> Path:
    """Where the new generation of a query is built on this machine."""
    if restoring.aside is not None:
        return restoring.aside / uid
    return hidden_folder(restoring.job_folder.local(), uid, restoring.record.generation)


def _prepare_logs(restoring: Restoring) -> None:
    folder, generation = restoring.job_folder, restoring.record.generation
    if not folder.is_local:
        prepare_logs_elsewhere(folder, generation, restoring.logs, replaces=restoring.older is not None)
        return
    for log in restoring.logs:
        prepare_log(folder.local(), generation, log)


def _final(restoring: Restoring, uid: str) -> Folder:
    return generation_folder(restoring.job_folder / QUERIES / uid, restoring.record.generation)


def _restore_files(restoring: Restoring, query: RestoredQuery, checkpoint: Path) -> None:
    ensure_folder(checkpoint)
    if query.make_empty is not None:
        query.make_empty(checkpoint)
        restoring.tell(RestoreMoved(f"{checkpoint}, restored"))
    prefix = f"{QUERIES}/{query.saved.done.query}/spark/"
    final = (_final(restoring, query.uid) / "spark").for_spark()  # the hidden name is temporary
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
    """The name of a file in the new checkpoint; None for one that is left out."""
    root, _, below = name.partition("/")
    if root != SOURCES:
        if name in NOT_RESTORED or query.make_empty is not None:
            return None
        return name if query.operators is None else moved_name(name, query.operators)
    place, _, rest = below.partition("/")
    now = [number for number, before in enumerate(query.places) if str(before) == place]
    return f"{SOURCES}/{now[0]}/{rest}" if now else None


def _change_of(name: str, query: RestoredQuery, final: str) -> Callable[[bytes, str], bytes] | None:
    """The function that changes the bytes of a file with a Spark checksum beside it; None if they stay."""
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


def _renumbered(places: Mapping[int, int], final: str | None, data: bytes, where: str) -> bytes:
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
    """A file of the savepoint that is read in place. Raises SAVEPOINT_INCOMPLETE and SAVEPOINT_ALTERED."""
    _refuse(flaw_at(path, file), path)
    return path


def _refuse(flaw: FileFlaw | None, source: Path) -> None:
    if flaw is not None:
        raise flaw.error(str(source), _COPY_AGAIN) from None


# --- the ledger --------------------------------------------------------------------------------------------


def _write_ledger(restoring: Restoring, query: RestoredQuery, built: Path) -> None:
    spark = built / "spark"
    storage, start = ledger_of(restoring.job_folder, query.uid, restoring.record.generation)
    decided = Decided(
        epoch=query.epoch,
        run=query.saved.done.run,
        prepared_digest=restoring.savepoint.digest,  # its decision, in this generation
        offsets=(spark / offsets_entry(query.epoch)).read_bytes(),
        commits=(spark / commits_entry(query.epoch)).read_bytes(),
        state_rows={} if query.make_empty is not None else query.saved.done.state_rows,
        operator_uids={} if query.make_empty is not None else query.saved.done.operator_uids,
    )
    storage.put_if_absent(entry(RUNS, query.run.run), encode(query.run))
    storage.put_if_absent(entry(DECIDED, query.epoch), encode(decided))
    saved = restoring.savepoint.record
    sinks = [uid for uid in query.start.sinks if uid not in query.in_job]
    written = begins_with(saved, restoring.record, query.uid, sinks, query.saved)
    storage.replace(FINISHED_THROUGH, encode(FinishedThrough(epoch=query.epoch, sinks=written)))
    if query.accepted is not None:
        storage.put_if_absent(entry(OPERATORS, 1), encode(query.accepted))
    storage.put_if_absent(start, encode(query.start))
