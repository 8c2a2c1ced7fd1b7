"""A savepoint as a folder that can be copied anywhere: found, read, verified, removed.

    savepoint-<job id>-<id>/
        _metadata.json            the record *savepoint*: it names every other file, with its size and SHA-256
        queries/<uid>/spark/...   the files from which Spark resumes, at one done epoch

No path in it is absolute. A savepoint that is being written or removed has a hidden name beside it. So a folder under
its own name is complete, unless it was copied or changed from outside.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tidegate.core.errors import Code, TidegateError
from tidegate.core.names import NAME_RULE, is_name, shown
from tidegate.core.records import (
    KINDS,
    CheckpointRecord,
    DoneEpoch,
    FileFlaw,
    SavedFile,
    SavepointRecord,
    decode,
    digest_of,
)
from tidegate.disk.durable import storage_error, sync_folder
from tidegate.savepoints.proof import flaw_at
from tidegate.savepoints.refusals import COPY_AGAIN
from tidegate.savepoints.state_tables import tables_of
from tidegate.storages.schemes import Folder

MANIFEST = "_metadata.json"
CLAIM = ".claim"
"""Suffix of the claim record beside a savepoint's folder."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint's folder and its manifest. Its other files were not checked. `digest`: of the manifest, the identity
    of a savepoint and all its copies. `origin`: the retained checkpoint from which it was assembled, for one restore.
    `place`: the folder on another storage; `folder` has a copy of it, if any. `in_flight`, of a retained checkpoint:
    for each part of a channel of the job, the row after the last one that belongs to the checkpoint.
    """

    folder: Path
    record: SavepointRecord
    digest: str
    origin: Path | Folder | None = None
    place: Folder | None = None
    in_flight: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def found_at(self) -> Path | Folder:
        """The savepoint's folder, with the path that the caller gave."""
        return self.origin or self.place or self.folder

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.record.files)


def open_savepoint(folder: Path) -> Savepoint:
    """The savepoint in this folder.

    Raises SAVEPOINT_INCOMPLETE without a manifest or with that of a retained checkpoint, RECORD_CORRUPT, RECORD_NEWER,
    and SAVEPOINT_UNSAFE if the manifest names a file outside of the folder, or has an invalid name.
    """
    manifest = folder / MANIFEST
    try:
        if manifest.is_symlink():
            raise _unsafe("a file", "a symbolic link", manifest)
        data = manifest.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise _nothing_in(folder) from None
    except OSError as error:
        raise storage_error(error, manifest, "read a savepoint") from error
    if data.startswith(f"tidegate {KINDS[CheckpointRecord]} ".encode()):
        raise _retained(folder)
    record = decode(SavepointRecord, data, str(manifest))
    check_names(record.job_id, [query.done for query in record.queries], manifest)
    tables = (table.folder for query in record.queries for table in tables_of(query))
    for name in (*(file.name for file in record.files), *tables):
        if not _stays_inside(name):
            raise _unsafe("a relative path below the savepoint", repr(name), manifest)
    return Savepoint(folder, record, digest_of(data))


def check_names(job_id: str, queries: Iterable[DoneEpoch], manifest: Path | Folder) -> None:
    """Raises SAVEPOINT_UNSAFE for an invalid name in a manifest: names become folders of a job, also folders that a
    restore removes.
    """
    uids = (uid for query in queries for uid in (query.query, *query.sources, *query.sinks))
    for name in (job_id, *uids):
        if not is_name(name):
            raise _unsafe(f"names of {NAME_RULE}", shown(name), manifest)


def savepoints_in(folder: Path) -> tuple[list[Savepoint], list[TidegateError]]:
    """The savepoints directly in a folder, the newest first; and the errors of those that cannot be read."""
    found: list[Savepoint] = []
    wrong: list[TidegateError] = []
    try:
        places = sorted(folder.iterdir())
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise storage_error(error, folder, "list savepoints") from error
    for place in places:
        try:
            if not place.name.startswith(".") and (place / MANIFEST).exists():
                found.append(open_savepoint(place))
        except TidegateError as error:
            wrong.append(error)
        except OSError as error:  # including those of a foreign folder
            wrong.append(storage_error(error, place, "look for a savepoint"))
    return sorted(found, key=lambda each: (each.record.at, each.folder.name), reverse=True), wrong


def verify(savepoint: Savepoint) -> list[TidegateError]:
    """All errors of a savepoint's files. Reads each file completely."""
    found, wrong = _files_below(savepoint.folder)
    named = {file.name: file for file in savepoint.record.files}
    wrong += _strangers(savepoint)
    for name, file in named.items():
        if name in found:
            wrong += _compared(savepoint.folder / name, file)
        elif not (savepoint.folder / name).is_symlink():
            wrong += _told(file.shortage(None), savepoint.folder / name)
    return wrong


def names_wrong(savepoint: Savepoint) -> list[TidegateError]:
    """Unexpected entries of the folder: links, and files that the savepoint does not name. Reads no file."""
    return [*_files_below(savepoint.folder)[1], *_strangers(savepoint)]


def lacks(savepoint: Savepoint) -> Iterator[TidegateError]:
    """The files that are missing or too short. Reads no file."""
    for file in savepoint.record.files:
        path = savepoint.folder / file.name
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            size = None
        except OSError as error:
            raise storage_error(error, path, "read a savepoint") from error
        yield from _told(file.shortage(size), path)


def dispose(savepoint: Savepoint) -> None:
    """Remove a savepoint. It gets a hidden name first, so a kill leaves no half savepoint under its own name. Two calls
    at the same time both succeed.

    Raises SAVEPOINT_ALTERED or SAVEPOINT_UNSAFE, and removes nothing, if the folder holds foreign files.
    """
    folder = savepoint.folder
    if folder.is_symlink():
        raise _unsafe("the savepoint's own folder", "a symbolic link", folder)
    try:
        for error in names_wrong(savepoint):
            raise error
    except TidegateError:
        if folder.exists():
            raise
        finish_disposal(folder)  # removed by another process during the read
        return
    try:
        _remove_hidden(folder)
        with suppress(FileNotFoundError):  # another process has removed it
            os.rename(folder, _trash(folder))
        sync_folder(folder.parent)
        _remove_hidden(folder)
    except OSError as error:
        raise storage_error(error, folder, "remove a savepoint") from error


def finish_disposal(folder: Path) -> bool:
    """True if a killed process had begun to remove the savepoint of this folder. The rest is removed now."""
    try:
        if folder.exists() or not _trash(folder).is_dir():
            return False
        _remove_hidden(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise storage_error(error, folder, "remove a savepoint") from error
    return True


def claim_of(folder: Path | Folder, digest: str) -> tuple[Folder, str]:
    """Where the claim record for this manifest is: the folder above, and its name there. Links to the folder give the
    same place. Another savepoint under the same folder name has another one.
    """
    place = Folder.of(folder)
    place = Folder.of(place.local().resolve()) if place.is_local else place
    return place.parent, f"{place.name}.{digest.removeprefix('sha256:')[:16]}{CLAIM}"


def _remove_hidden(folder: Path) -> None:
    """Remove the files of this folder. The claim record goes first, while the manifest still gives its path."""
    trash = _trash(folder)
    with suppress(FileNotFoundError):
        beside, name = claim_of(folder, digest_of((trash / MANIFEST).read_bytes()))
        (beside.local() / name).unlink()
    while trash.exists():
        with suppress(FileNotFoundError):  # another process has removed it
            shutil.rmtree(trash)


def _trash(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.trash")


def _strangers(savepoint: Savepoint) -> list[TidegateError]:
    found, _ = _files_below(savepoint.folder)
    names = {MANIFEST, *(file.name for file in savepoint.record.files)}
    return [
        _altered("only files that the savepoint names", "one more", savepoint.folder / name)
        for name in sorted(found - names)
    ]


def _files_below(root: Path) -> tuple[set[str], list[TidegateError]]:
    """The names of all plain files below a folder, and an error for each other entry."""
    found: set[str] = set()
    wrong: list[TidegateError] = []
    for path in _entries(root):
        if path.is_symlink() or not path.is_file():
            wrong.append(_unsafe("files and folders only", "a link, or no plain file", path))
        else:
            found.add(path.relative_to(root).as_posix())
    return found, wrong


def _entries(root: Path) -> Iterator[Path]:
    """All entries below a folder except folders; links are not followed."""

    def fail(error: OSError) -> None:
        raise storage_error(error, root, "read a savepoint") from error

    for folder, names, files in os.walk(root, onerror=fail):
        for name in [*files, *(name for name in names if os.path.islink(f"{folder}/{name}"))]:
            yield Path(folder, name)


def _compared(path: Path, file: SavedFile) -> Sequence[TidegateError]:
    try:
        return _told(flaw_at(path, file), path)
    except OSError as error:
        return [storage_error(error, path, "read a file of a savepoint")]


def _told(flaw: FileFlaw | None, path: Path) -> list[TidegateError]:
    return [] if flaw is None else [flaw.error(str(path), COPY_AGAIN)]


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _retained(folder: Path) -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_INCOMPLETE,
        expected="a savepoint, which has all its files in its folder",
        found="a retained checkpoint, whose files are the job's own and go with its next epochs",
        where=str(folder),
        next_step="to resume from the newest checkpoint, start the job without -s; to go back to this one, stop the job"
        " and start it with -s and this folder; for one that can be moved, take a savepoint: `tidegate savepoint JOB"
        " DIR` while it runs, or `tidegate stop JOB -p DIR`",
    )


def _nothing_in(folder: Path) -> TidegateError:
    """The error for a folder without a manifest: mostly the wrong folder, sometimes an incomplete copy."""
    found = "a folder without one" if folder.is_dir() else "a file" if folder.exists() else "no such folder"
    return TidegateError(
        Code.SAVEPOINT_INCOMPLETE,
        expected=f"the folder of a savepoint, with its {MANIFEST}",
        found=found,
        where=str(folder),
        next_step="see `tidegate savepoint ls DIR` for the savepoints in DIR; where this one was copied in part, "
        f"{COPY_AGAIN}",
    )


def _altered(expected: str, found: str, where: Path) -> TidegateError:
    return _error(Code.SAVEPOINT_ALTERED, expected, found, where)


def _unsafe(expected: str, found: str, where: Path | Folder) -> TidegateError:
    return _error(Code.SAVEPOINT_UNSAFE, expected, found, where)


def _error(code: Code, expected: str, found: str, where: Path | Folder) -> TidegateError:
    return TidegateError(code, expected=expected, found=found, where=str(where), next_step=COPY_AGAIN)
