"""Savepoints on HDFS and S3, where no folder can be renamed: a savepoint counts from its manifest, which is put last.

Its files are held as for a savepoint on a disk, and copied from there, several at once. The SHA-256 in the manifest is
of the bytes that were sent, and the sizes of all files at their place are compared at the end. A kill leaves files
without a manifest: no command takes them for a savepoint, and the next one under this id removes them. For a restore
the files are brought to a temporary folder, and compared with the manifest.

A driver that was paused may resume beside its successor, when both were asked for the same savepoint. It has lost its
lease and ends at its next step. It removes no file beside a manifest. Of two manifests the first one counts, and the
answer is the savepoint that stands there, if it is whole.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.errors import TidegateError
from tidegate.core.records import FileFlaw, SavedFile, SavepointFormat, digest_of, encode
from tidegate.disk.side_by_side import side_by_side
from tidegate.savepoints.at_a_place import open_at, sizes_wrong_at
from tidegate.savepoints.building import BuildingElsewhere
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.folder import MANIFEST, Savepoint, open_savepoint
from tidegate.savepoints.hold import newest_done
from tidegate.savepoints.place import check_place, in_folder_of
from tidegate.savepoints.refusals import COPY_AGAIN
from tidegate.savepoints.running_job import RunningJob
from tidegate.savepoints.take import (
    check_folder,
    held_in,
    not_whole,
    of_this_form,
    put_together,
    remove_held,
    take,
    take_last,
    to_one_of_these,
)
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def take_into(job: RunningJob, savepoint_id: str, into: Folder, copying: Copying, form: SavepointFormat) -> Savepoint:
    """`take`, into a folder of any storage."""
    if into.is_local:
        return take(job, savepoint_id, into.local(), copying, form)
    target = into / f"savepoint-{job.record.job_id}-{savepoint_id}"
    if open_storage(target).look(MANIFEST) is not None:
        return _standing(job, target, form)
    copying.go_on()
    remove_held(job.folder)
    with TemporaryDirectory(prefix="tidegate-savepoint-") as here:
        built = Path(here).resolve() / target.name
        held = held_in(job, built, secrets.token_hex(4))
        try:
            building = BuildingElsewhere(built, open_checkpoint_files(target), copying, partial(not_whole, job))
            record = put_together(job, savepoint_id, held, building, copying, form)
            job.reach("described")
            savepoint = Savepoint(Path(target.path), record, digest_of(encode(record)), place=target)
            for error in sizes_wrong_at(savepoint):
                raise not_whole(job, f"{error.where}: {error.found}")
            copying.appear()
            open_storage(target).put_if_absent(MANIFEST, encode(record))
        finally:
            with suppress(TidegateError):  # the next savepoint removes the rest: this must not hide the first error
                remove_held(job.folder)
    job.reach("renamed")
    return _standing(job, target, form)


def _standing(job: RunningJob, target: Folder, form: SavepointFormat) -> Savepoint:
    """The savepoint that counts in this folder: the manifest that was put first may be that of another driver of the
    job. No file is read.

    Raises SAVEPOINT_REFUSED if it has the other format, SAVEPOINT_INCOMPLETE or SAVEPOINT_ALTERED if a file is missing
    or has another size.
    """
    standing = open_at(target)
    of_this_form(job, standing.record, form)
    for error in sizes_wrong_at(standing):
        raise error
    return standing


def take_last_into(
    job: RunningJob, savepoint_id: str, into: Folder, copying: Copying, form: SavepointFormat
) -> Savepoint:
    """`take_last`, into a folder of any storage."""
    if into.is_local:
        return take_last(job, savepoint_id, into.local(), copying, form)
    job.end_input()
    ended_with = {each.query.uid: newest_done(each) for each in job.queries}
    return to_one_of_these(job, savepoint_id, ended_with, lambda name: take_into(job, name, into, copying, form))


def check_into(job: RunningJob, into: Folder) -> None:
    """Raise if savepoints cannot be written to this folder, or if it belongs to a job or to a savepoint."""
    if into.is_local:
        check_place(into.local(), job.folder)
        check_folder(job, into.local())
        return
    check_elsewhere(into, job.folder)
    scratch, storage = f".tidegate-{secrets.token_hex(4)}", open_storage(into)
    storage.put_if_absent(scratch, b"")
    storage.delete(scratch)


def check_elsewhere(into: Folder, job_folder: Folder | None = None) -> None:
    """Raises REQUEST_REFUSED for a folder that belongs to this job, another job or another savepoint."""
    above = into
    while above.path != "/":
        if above == job_folder:
            raise in_folder_of(into, "the job's own folder, which a cancel may delete")
        for name in (JOB_RECORD, MANIFEST):
            if open_storage(above).look(name) is not None:
                raise in_folder_of(into, f"the folder of a job or a savepoint, {above}")
        above = above.parent


def brought_here(place: Folder, into: Path) -> Savepoint:
    """The savepoint in this folder of another storage, copied below `into`, which is empty; every file is compared with
    the manifest.

    Raises SAVEPOINT_INCOMPLETE, SAVEPOINT_ALTERED, RECORD_..., and storage errors.
    """
    folder = into / place.name
    folder.mkdir()
    data = open_storage(place).peek(MANIFEST)
    if data is not None:
        (folder / MANIFEST).write_bytes(data)
    savepoint = open_savepoint(folder)
    source, target = open_checkpoint_files(place), open_checkpoint_files(folder)

    bring = _copy(source, target, Copying())
    files = savepoint.record.files
    for file, flaw in zip(files, side_by_side(bring, files, at_least=2), strict=True):
        if flaw is not None:
            raise flaw.error(source.where(file.name), COPY_AGAIN)
    return replace(savepoint, place=place)


def _copy(source: CheckpointFiles, into: CheckpointFiles, copying: Copying) -> Callable[[SavedFile], FileFlaw | None]:
    def copy(file: SavedFile) -> FileFlaw | None:
        came = source.copy(file.name, into, copying.copied)
        return file.shortage(None) if came is None else file.flaw(came.size_bytes, came.sha256)

    return copy
