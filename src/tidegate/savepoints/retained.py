"""A retained checkpoint of a stopped job, used as a savepoint: its files are collected for one restore.

A manifest below `checkpoints/` refers to files in the job's folder, among those of later epochs. They are linked if the
disk supports it, otherwise copied, into a folder that the caller removes. Their checksums were not recorded, so a
restore can only prove that they did not change during the restore.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.ingest_part import bring_parts
from tidegate.checkpoints.job_layout import MANIFEST, QUERIES, generation_folder
from tidegate.checkpoints.spark_layout import offsets_entry
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import (
    KINDS,
    CheckpointRecord,
    DoneEpoch,
    SavedFile,
    SavedQuery,
    SavepointFormat,
    SavepointRecord,
    decode,
)
from tidegate.disk.blocks import measured
from tidegate.disk.durable import Trust
from tidegate.disk.walking import files_below
from tidegate.savepoints.folder import Savepoint, check_names
from tidegate.savepoints.hold import hold_files
from tidegate.savepoints.query import saved_query
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.leases import driver_or_engine_lives
from tidegate.storages.refusals import job_runs
from tidegate.storages.schemes import Folder


def retained_in(folder: Path) -> CheckpointRecord | None:
    """The retained checkpoint in this folder, `<job>/checkpoints/<n>`; None if the folder is no such checkpoint. Raises
    RECORD_CORRUPT, RECORD_NEWER and SAVEPOINT_UNSAFE.
    """
    try:
        data = (folder / MANIFEST).read_bytes()
    except OSError:
        return None  # opening it as a savepoint gives the reason
    if not data.startswith(f"tidegate {KINDS[CheckpointRecord]} ".encode()):
        return None
    record = decode(CheckpointRecord, data, str(folder / MANIFEST))
    check_names(record.job_id, record.queries, folder / MANIFEST)
    return record


def as_savepoint(folder: Path, record: CheckpointRecord, into: Path, job_folder: Folder) -> Savepoint:
    """Assemble this checkpoint as a savepoint in `into`, which is empty. `job_folder`: the folder of the job to
    restore, whose locks the caller holds. If another job owns the checkpoint, it must not run.

    Raises DRIVER_ALIVE, SAVEPOINT_INCOMPLETE, SAVEPOINT_REFUSED, and storage errors.
    """
    of_job = folder.resolve().parent.parent
    is_own = job_folder.is_local and of_job == job_folder.local().resolve()
    if not is_own and driver_or_engine_lives(of_job):
        raise _runs(of_job, record.job)
    generation = max((done.generation for done in record.queries), default=1)
    with Trust().over(folder, "restore a retained checkpoint"):
        shutil.copyfile(folder / MANIFEST, into / MANIFEST)
        queries = tuple(_query(of_job, done, into) for done in record.queries)
        _bring_logs(of_job, record, into)
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
        origin=folder,
    )


def _query(of_job: Path, done: DoneEpoch, into: Path) -> SavedQuery:
    spark = (generation_folder(Folder.of(of_job) / QUERIES / done.query, done.generation) / "spark").local()
    held = into / QUERIES / done.query / "spark"
    held.mkdir(parents=True)
    if not spark.is_dir():
        raise _incomplete(f"the files of epoch {done.epoch} of query {done.query}", spark)
    files, into_files = open_checkpoint_files(spark), open_checkpoint_files(held)
    names = hold_files(files, done, into_files, partial(_bring, files, into_files))
    if done.epoch > 0 and offsets_entry(done.epoch - 1) not in names:  # a restored generation has it, too
        raise _incomplete(f"the entry of epoch {done.epoch - 1} of query {done.query} in Spark's log", spark)
    return saved_query(done, held)


def _bring_logs(of_job: Path, record: CheckpointRecord, into: Path) -> None:
    try:
        bring_parts(of_job / INGEST, record.queries, into / INGEST)
    except TidegateError as error:
        if error.catalogue_entry is not Code.INGEST_LOST:
            raise
        raise _incomplete(error.expected, of_job / INGEST, error.found) from error


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


def _runs(of_job: Path, name: str) -> TidegateError:
    instead = f"take a savepoint of it (`tidegate savepoint {name} DIR`), or stop it first"
    return job_runs("the files of its checkpoint stay", str(of_job), instead)


def _incomplete(expected: str, where: Path, found: str = "none") -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_INCOMPLETE,
        expected=expected,
        found=f"{found}: the job has run since, and removed it",
        where=str(where),
        next_step="choose a newer one of the job's checkpoints, or a savepoint",
    )
