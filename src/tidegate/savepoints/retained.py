"""A retained checkpoint of a stopped job, used as a savepoint: its files are collected for one restore.

A manifest below `checkpoints/` refers to files in the job's folder, among those of later epochs. They are linked if the
disk supports it, otherwise copied, into a folder of this machine that the caller removes. Their checksums were not
recorded, so a restore can only prove that they did not change during the restore; but see `checkpoints.state_proof`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.ingest_part import bring_parts
from tidegate.checkpoints.job_layout import (
    CHANNELS,
    CHECKPOINTS,
    JOB_RECORD,
    MANIFEST,
    QUERIES,
    generation_folder,
    held_folder,
    job_names,
)
from tidegate.checkpoints.spark_layout import offsets_entry
from tidegate.core.channel_parts import position_in
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import (
    CheckpointRecord,
    DoneEpoch,
    JobRecord,
    SavedFile,
    SavedQuery,
    SavepointFormat,
    SavepointRecord,
    decode,
    digest_of,
    is_of_kind,
)
from tidegate.core.spark_log import positions_of
from tidegate.disk.blocks import measured
from tidegate.disk.durable import Trust
from tidegate.disk.walking import files_below
from tidegate.savepoints.folder import Savepoint, check_names
from tidegate.savepoints.hold import bring_files, copy_files, write_entries
from tidegate.savepoints.query import saved_query
from tidegate.savepoints.refusals import of_channels, of_rows_in_flight
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.leases import driver_or_engine_lives
from tidegate.storages.opening import open_storage
from tidegate.storages.refusals import job_runs
from tidegate.storages.schemes import Folder


def by_flinks_name(place: Folder) -> Folder:
    """The retained checkpoint that Flink would name `<checkpointing.dir>/<job id>/chk-<n>`; otherwise `place`.

    Raises SAVEPOINT_INCOMPLETE if no job has this id, and one whose record cannot be read may have it.
    """
    number = _FLINKS.fullmatch(place.name)
    if number is None:
        return place
    jobs, job_id = place.parent.parent, place.parent.name
    unreadable: list[str] = []
    for name in job_names(jobs):
        storage = open_storage(jobs / name)
        data = storage.peek(JOB_RECORD)
        try:
            if data is not None and decode(JobRecord, data, storage.where(JOB_RECORD)).job_id == job_id:
                return jobs / name / CHECKPOINTS / number[1]
        except TidegateError as error:
            unreadable.append(f"{error.where} ({error.code})")
    if unreadable and retained_in(place) is None:
        raise _hidden(job_id, unreadable, place)
    return place


def retained_in(folder: Folder) -> CheckpointRecord | None:
    """The retained checkpoint in this folder, `<job>/checkpoints/<n>`; None if the folder is no such checkpoint. Raises
    RECORD_CORRUPT, RECORD_NEWER and SAVEPOINT_UNSAFE, and errors of a storage that is not a disk.
    """
    data = _manifest(folder)
    if data is None or not is_of_kind(CheckpointRecord, data):
        return None
    record = decode(CheckpointRecord, data, str(folder / MANIFEST))
    check_names(record.job_id, record.queries, folder / MANIFEST)
    return record


def as_savepoint(folder: Folder, record: CheckpointRecord, into: Path, job_folder: Folder) -> Savepoint:
    """Assemble this checkpoint as a savepoint in `into`, which is empty. `job_folder`: the folder of the job to
    restore, whose locks the caller holds. If another job owns the checkpoint, it must not run.

    Raises DRIVER_ALIVE, SAVEPOINT_INCOMPLETE, SAVEPOINT_REFUSED, STATE_OVERWRITTEN, and storage errors.
    """
    of_job = _behind_links(folder).parent.parent
    if not record.held_in and _reads_a_channel(of_job, record):
        raise of_channels(f"job {record.job}, {folder}")
    if of_job != _behind_links(job_folder):
        if record.in_flight:
            raise of_rows_in_flight(f"job {record.job}, {folder}")
        if driver_or_engine_lives(of_job):
            raise _runs(of_job, record.job)
    generation = max((done.generation for done in record.queries), default=1)
    with Trust().over(into, "restore a retained checkpoint"):
        manifest = _manifest(folder)
        if manifest is None:
            raise _incomplete(f"its {MANIFEST}", folder)
        (into / MANIFEST).write_bytes(manifest)  # the same bytes: their digest is its identity
        queries = tuple(_query(of_job, done, into, record) for done in record.queries)
        _bring_logs(of_job / INGEST, record, into / INGEST)
        files = tuple(_files(into))
    return Savepoint(
        into,
        SavepointRecord(
            id=f"checkpoint-{record.number}",
            format=SavepointFormat.NATIVE,
            job=record.job,
            job_id=record.job_id,
            generation=generation,
            at=record.at,
            queries=queries,
            files=files,
        ),
        digest_of(manifest),
        origin=folder.local() if folder.is_local else folder,
        in_flight=record.in_flight,
    )


def _manifest(folder: Folder) -> bytes | None:
    """None if there is none, or none that can be read: opening it as a savepoint gives the reason."""
    if not folder.is_local:
        return open_storage(folder).peek(MANIFEST)
    try:
        return (folder.local() / MANIFEST).read_bytes()
    except OSError:
        return None


def _behind_links(folder: Folder) -> Folder:
    return Folder.of(folder.local().resolve()) if folder.is_local else folder


def _reads_a_channel(of_job: Folder, record: CheckpointRecord) -> bool:
    channels = open_storage(of_job / CHANNELS).folders("")
    positions = (text for done in record.queries for _, text in positions_of(done.sources, done.offsets))
    return any(position_in(text, channel) is not None for text in positions if text for channel in channels)


def _query(of_job: Folder, done: DoneEpoch, into: Path, record: CheckpointRecord) -> SavedQuery:
    place = into / QUERIES / done.query / "spark"
    place.mkdir(parents=True)
    into_files = open_checkpoint_files(place)
    if not record.held_in:
        _collect(of_job, done, into_files)
    else:
        files = open_checkpoint_files(held_folder(of_job, record.held_in, done.query))
        for name in record.held[done.query]:
            if not _bring(files, into_files, name):
                raise _incomplete(f"{name} of query {done.query}", files.where())
    write_entries(done, into_files)
    return saved_query(done, place)


def _collect(of_job: Folder, done: DoneEpoch, into: CheckpointFiles) -> None:
    """Collect the files of an epoch among those of later ones."""
    generation = generation_folder(of_job / QUERIES / done.query, done.generation)
    files = open_checkpoint_files(generation / "spark")
    if of_job.is_local:
        names = bring_files(files, done, partial(_bring, files, into))
    else:
        names = copy_files(generation, done, into)
    if not names:
        raise _incomplete(f"the files of epoch {done.epoch} of query {done.query}", files.where())
    if done.epoch > 0 and offsets_entry(done.epoch - 1) not in names:  # a restored generation has it, too
        raise _incomplete(f"the entry of epoch {done.epoch - 1} of query {done.query} in Spark's log", files.where())


def _bring_logs(ingest: Folder, record: CheckpointRecord, into: Path) -> None:
    try:
        bring_parts(ingest, record.queries, into)
    except TidegateError as error:
        if error.catalogue_entry is not Code.INGEST_LOST:
            raise
        raise _incomplete(error.expected, ingest, error.found) from error


def _bring(files: CheckpointFiles, into: CheckpointFiles, name: str) -> bool:
    try:
        return files.hold(name, into.where())
    except TidegateError:  # another disk, or one without links: copied, then
        return files.copy(name, into, lambda _: None) is not None


def _files(root: Path) -> list[SavedFile]:
    found: list[SavedFile] = []
    for folder, names in files_below(root):
        for path in (folder / name for name in names):
            if path != root / MANIFEST:
                size, digest = measured(path)
                name = path.relative_to(root).as_posix()
                found.append(SavedFile(name=name, size_bytes=size, sha256=digest))
    return sorted(found, key=lambda file: file.name)


def _runs(of_job: Folder, name: str) -> TidegateError:
    instead = f"take a savepoint of it (`tidegate savepoint {name} DIR`), or stop it first"
    return job_runs("the files of its checkpoint stay", str(of_job), instead)


def _incomplete(expected: str, where: str | Folder, found: str = "none") -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_INCOMPLETE,
        expected=expected,
        found=f"{found}: the job has run since, and removed it",
        where=str(where),
        next_step="choose a newer one of the job's checkpoints, or a savepoint",
    )


def _hidden(job_id: str, unreadable: Sequence[str], place: Folder) -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_INCOMPLETE,
        expected=f"a job of id {job_id}, by whose name the checkpoint is found",
        found=f"none, and records that cannot be read: one of these jobs may be that one: {', '.join(unreadable)}",
        where=str(place),
        next_step="name the checkpoint by its own folder: <checkpointing.dir>/<name of the job>/checkpoints/<n>",
    )


_FLINKS = re.compile(r"chk-(0|[1-9][0-9]*)")
