"""Existing savepoints in any storage: opened, listed, verified, removed, by path or URI."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate.checkpoints.job_layout import MANIFEST
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedFile, digest_of
from tidegate.disk.blocks import read_blocks
from tidegate.disk.side_by_side import side_by_side
from tidegate.savepoints import folder as on_a_disk
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.refusals import COPY_AGAIN
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


def open_at(place: Folder) -> Savepoint:
    """The savepoint in this folder. Raises SAVEPOINT_INCOMPLETE, SAVEPOINT_UNSAFE, RECORD_..., and storage errors."""
    if place.is_local:
        return on_a_disk.open_savepoint(place.local())
    data = open_storage(place).peek(MANIFEST)
    if data is None:
        raise TidegateError(
            Code.SAVEPOINT_INCOMPLETE,
            expected=f"a savepoint, which has its {MANIFEST}",
            found="none: another folder, or a savepoint that was killed while it was taken",
            where=str(place),
            next_step="see `tidegate savepoint ls` of the folder above",
        )
    with TemporaryDirectory(prefix="tidegate-manifest-") as here:
        (Path(here) / MANIFEST).write_bytes(data)
        found = on_a_disk.open_savepoint(Path(here))
    return replace(found, folder=Path(place.path), place=place)


def savepoints_at(place: Folder) -> tuple[list[Savepoint], list[TidegateError]]:
    """The savepoints directly in a folder, the newest first; and the errors of those that cannot be read."""
    if place.is_local:
        return on_a_disk.savepoints_in(place.local())
    found: list[Savepoint] = []
    wrong: list[TidegateError] = []
    for name in open_storage(place).folders(""):
        try:
            if not name.startswith(".") and open_storage(place / name).look(MANIFEST) is not None:
                found.append(open_at(place / name))
        except TidegateError as error:
            wrong.append(error)
    return sorted(found, key=lambda each: (each.record.at, each.folder.name), reverse=True), wrong


def verify_at(savepoint: Savepoint) -> list[TidegateError]:
    """All errors of a savepoint's files. Reads each file completely."""
    if savepoint.place is None:
        return on_a_disk.verify(savepoint)
    files = open_checkpoint_files(savepoint.place)

    def compare(file: SavedFile) -> list[TidegateError]:
        opened = files.open(file.name)
        if opened is None:
            flaw = file.shortage(None)
        else:
            with closing(opened):
                flaw = file.flaw(*read_blocks(opened, lambda _block: None))
        return [] if flaw is None else [flaw.error(files.where(file.name), COPY_AGAIN)]

    return [
        *strangers_at(savepoint),
        *(error for found in side_by_side(compare, savepoint.record.files) for error in found),
    ]


def dispose_at(place: Folder) -> None:
    """Remove a savepoint; after a kill, complete the removal. Raises SAVEPOINT_ALTERED, and removes nothing, if the
    folder holds foreign files.

    On another storage than a disk the manifest is set aside first: the rest is no savepoint. It goes last, because it
    gives the path of the claim.
    """
    if place.is_local:
        if not on_a_disk.finish_disposal(place.local()):
            on_a_disk.dispose(on_a_disk.open_savepoint(place.local()))
        return
    storage = open_storage(place)
    if storage.look(MANIFEST) is not None or not _asides(storage):
        for error in strangers_at(open_at(place)):
            raise error
        storage.set_aside(MANIFEST)
    asides = _asides(storage)
    storage.delete_all(sorted({each.name for each in open_checkpoint_files(place).list()} - set(asides)))
    for manifest in filter(None, map(storage.peek, asides)):
        beside, claim = on_a_disk.claim_of(place, digest_of(manifest))
        open_storage(beside).delete(claim)
    open_checkpoint_files(place).clear("")


def strangers_at(savepoint: Savepoint) -> list[TidegateError]:
    """The errors of files that a savepoint on another storage does not name. Reads no file."""
    place = savepoint.place or savepoint.folder
    files = open_checkpoint_files(place)
    named = {MANIFEST, *_asides(open_storage(place)), *(file.name for file in savepoint.record.files)}
    return [_stranger(files.where(name)) for name in sorted({each.name for each in files.list()} - named)]


def _asides(storage: Storage) -> list[str]:
    """The manifests that killed removals have set aside."""
    return [name for name in storage.list("") if name.startswith(f".aside-{MANIFEST}-")]


def sizes_wrong_at(savepoint: Savepoint) -> list[TidegateError]:
    """The errors of files of a savepoint on another storage that are missing or have another size. Reads no file."""
    files = open_checkpoint_files(savepoint.place or savepoint.folder)
    sizes = {each.name: each.size_bytes for each in files.list()}
    found = [(file, file.size_flaw(sizes.get(file.name))) for file in savepoint.record.files]
    return [flaw.error(files.where(file.name), COPY_AGAIN) for file, flaw in found if flaw is not None]


def _stranger(where: str) -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_ALTERED,
        expected="files that the savepoint names, and no others",
        found="one more",
        where=where,
        next_step=COPY_AGAIN,
    )
