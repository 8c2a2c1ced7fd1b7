"""Archives of savepoints on HDFS and S3, and savepoints that are unpacked there.

Nothing can be renamed on S3, and no lock holds off another import. So a savepoint is unpacked in its own place, and
counts from its manifest, which is put last. A file that is there already with the right bytes is kept: an import that
was killed resumes, and two imports of one archive help each other. A file that the manifest does not name is refused,
so that an archive never removes what is not its own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import FileFlaw, SavedFile
from tidegate.disk.blocks import Readable
from tidegate.savepoints.archive import BytesPassed, export_stream, first_member, name_taken, reading, unpack
from tidegate.savepoints.at_a_place import sizes_wrong_at, strangers_at
from tidegate.savepoints.elsewhere import check_elsewhere
from tidegate.savepoints.folder import MANIFEST, Savepoint, open_savepoint
from tidegate.savepoints.saved_bytes import as_stream, written_by
from tidegate.storages.checkpoint_files import CheckpointFiles, measured_at
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def export_to(savepoint: Savepoint, target: Folder, passed: BytesPassed = lambda _more, _total: None) -> int:
    """Write a savepoint as an archive of this name on HDFS or S3, which is complete or absent. Returns its size.

    Raises REQUEST_REFUSED if the name is taken, the errors of `export_stream`, and storage errors.
    """
    if open_storage(target.parent).look(target.name) is not None:
        raise name_taken(target)
    with written_by(lambda into: export_stream(savepoint, into, passed)) as archive:
        return open_checkpoint_files(target.parent).create(target.name, archive, lambda _more: None).size_bytes


@contextmanager
def opened_archive(place: Folder) -> Generator[IO[bytes]]:
    """An archive on HDFS or S3, as a stream. Raises SAVEPOINT_INCOMPLETE if there is none, and storage errors."""
    found = open_checkpoint_files(place.parent).open(place.name)
    if found is None:
        raise TidegateError(
            Code.SAVEPOINT_INCOMPLETE,
            expected="an archive of a savepoint, from export",
            found="none",
            where=str(place),
            next_step="name the archive that `tidegate savepoint export` has written",
        )
    with closing(found):
        yield as_stream(found)


def import_to(
    source: IO[bytes], into: Folder, passed: BytesPassed = lambda _more, _total: None, *, called: str = ""
) -> Savepoint:
    """`import_stream`, into a folder on HDFS or S3."""
    check_elsewhere(into)
    with reading(source, called or str(into)) as archive:
        name, manifest = first_member(archive, into)
        target, files = into / name, open_checkpoint_files(into / name)
        storage = open_storage(target)
        if storage.look(MANIFEST) is not None:
            raise name_taken(target)
        savepoint = _checked(manifest, target)
        for _ in strangers_at(savepoint):
            raise name_taken(target)
        unpack(archive, name, savepoint.record, into, partial(_put, files), passed)
    for error in sizes_wrong_at(savepoint):  # another process may have removed one
        raise error
    storage.put_if_absent(MANIFEST, manifest)
    return savepoint


def _checked(manifest: bytes, target: Folder) -> Savepoint:
    """The savepoint with this manifest, before any of its paths is used."""
    with TemporaryDirectory(prefix="tidegate-manifest-") as here:
        (Path(here) / MANIFEST).write_bytes(manifest)
        return replace(open_savepoint(Path(here)), folder=Path(target.path), place=target)


def _put(files: CheckpointFiles, file: SavedFile, content: Readable) -> FileFlaw | None:
    standing = measured_at(files, file.name)
    if standing is not None:
        if file.flaw(standing.size_bytes, standing.sha256) is None:
            return None
        files.delete(file.name)
    came = files.create(file.name, content, lambda _more: None)
    flaw = file.flaw(came.size_bytes, came.sha256)
    if flaw is not None:
        with suppress(TidegateError):  # the next import removes it: this must not hide the first error
            files.delete(file.name)
    return flaw
