"""Lists the files of a source, and looks at single files again. `Files` is the interface, `LocalFiles` is on a disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Protocol

from tidegate.sources.files.globs import FileSelection, Pattern
from tidegate.sources.files.names import why_unreadable

_ENDS_BYTES = 4096


class SeenFile(NamedTuple):
    """A file as a listing shows it: its path below the root, its size in bytes, and its modification time."""

    name: str
    size: int
    mtime_ns: int


class FileStamp(NamedTuple):
    """The inode number and change time of a file: if one differs, the file was touched. Valid during one start only."""

    inode: int
    ctime_ns: int


class Files(Protocol):
    """The files of a source on some file system. Names are paths below the root, with `/` between folders."""

    on_this_clock: bool
    """Whether the times of files come from the clock of this machine."""

    appear_whole: bool
    """Whether no file can be seen while it is written."""

    time_unit_ns: int
    """Nanoseconds. Times of files are compared with the times that Spark sees in whole units of this."""

    def list(self) -> Iterable[SeenFile]:
        """List all selected files. Raises OSError, or TidegateError, if a folder cannot be listed."""
        ...

    def look(self, name: str) -> SeenFile | None:
        """The present size and time of a file; None if it does not exist."""
        ...

    def mark(self, name: str) -> FileStamp | None:
        """The stamp of a file; None if it does not exist, or if the file system has no cheap stamp."""
        ...

    def ends(self, name: str) -> str | None:
        """A digest of the first and last 4 KiB of a file; None if it does not exist, or if reading it is expensive."""
        ...

    def is_whole(self, name: str) -> bool:
        """False if the file system knows that a program still writes the file."""
        ...

    def why_unreadable(self, name: str, names_in: str) -> str | None:
        """The reason why Spark cannot open a file of this name; None if it can. `names_in`: the encoding in which the
        JVM names files on a disk.
        """
        ...

    def path(self, name: str) -> str:
        """The file's path with its scheme, not escaped, as Spark shows it."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Rename whichever file has this name now. Raises FileNotFoundError if there is none."""
        ...

    def put_back(self, name: str, to: str) -> bool:
        """Rename a file, but replace no other file. Returns False if the name `to` is taken."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file. Does nothing if it does not exist."""
        ...

    def move(self, name: str, into: str, known_as: str) -> None:
        """Move a file into another folder, under the name `known_as`.

        If the folder has a file of that name already, the moved file gets a number behind its name.
        """
        ...


class LocalFiles:
    """`Files` on a disk of this machine."""

    on_this_clock = True
    appear_whole = False
    time_unit_ns = 1_000_000  # Java's

    def __init__(self, root: Path, selection: FileSelection) -> None:
        self._root = str(root)
        self._selection = selection

    def list(self) -> list[SeenFile]:
        selection = self._selection
        if not selection.patterns:
            return list(self._below(self._root, "", (), selection))
        found: dict[str, SeenFile] = {}
        for pattern in selection.patterns:
            for seen in self._matching(pattern, self._root, ""):
                found[seen.name] = seen
        return list(found.values())

    def look(self, name: str) -> SeenFile | None:
        try:
            status = os.stat(f"{self._root}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return SeenFile(name, status.st_size, status.st_mtime_ns)

    def mark(self, name: str) -> FileStamp | None:
        try:
            status = os.stat(f"{self._root}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileStamp(status.st_ino, status.st_ctime_ns)

    def ends(self, name: str) -> str | None:
        digest = blake2b(digest_size=16)
        try:
            with open(f"{self._root}/{name}", "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                digest.update(file.read(_ENDS_BYTES))
                if size > _ENDS_BYTES:
                    file.seek(max(_ENDS_BYTES, size - _ENDS_BYTES))
                    digest.update(file.read(_ENDS_BYTES))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return digest.hexdigest()

    def is_whole(self, name: str) -> bool:
        return True

    def why_unreadable(self, name: str, names_in: str) -> str | None:
        return why_unreadable(name, names_in)

    def path(self, name: str) -> str:
        return f"file:{self._root}/{name}"

    def rename(self, name: str, to: str) -> None:
        os.rename(f"{self._root}/{name}", f"{self._root}/{to}")

    def put_back(self, name: str, to: str) -> bool:
        source, target = Path(self._root, name), Path(self._root, to)
        try:
            os.link(source, target)
        except FileExistsError:
            if not target.samefile(source):
                return False
        source.unlink()
        return True

    def remove(self, name: str) -> None:
        Path(self._root, name).unlink(missing_ok=True)

    def move(self, name: str, into: str, known_as: str) -> None:
        source, target = Path(self._root, name), _free(Path(into, known_as))
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(source, target)
        except OSError:
            _copy_over(source, target)

    def _below(
        self, folder: str, prefix: str, above: tuple[tuple[int, int], ...], selection: FileSelection
    ) -> Iterator[SeenFile]:
        """The selected files in a folder and in the subfolders that belong to the source."""
        own = os.stat(folder)
        if (own.st_dev, own.st_ino) in above:  # a link that leads back
            return
        inside = (*above, (own.st_dev, own.st_ino))
        with _listed(folder) as entries:
            for entry in entries:
                name = entry.name
                if selection.leaves_out(name):
                    continue
                try:
                    if entry.is_dir():
                        if selection.goes_into(name):
                            yield from self._below(entry.path, f"{prefix}{name}/", inside, selection)
                    elif selection.takes(name):
                        status = entry.stat()
                        yield SeenFile(prefix + name, status.st_size, status.st_mtime_ns)
                except FileNotFoundError:
                    continue  # gone since

    def _matching(self, pattern: Pattern, folder: str, prefix: str) -> Iterator[SeenFile]:
        """The files that match a pattern, and the selected files in folders that match it."""
        first, *rest = pattern
        with _listed(folder) as entries:
            for entry in entries:
                if not first.fullmatch(entry.name):
                    continue
                try:
                    is_folder = entry.is_dir()
                    if rest and is_folder:
                        yield from self._matching(rest, entry.path, f"{prefix}{entry.name}/")
                    elif is_folder and not rest:
                        yield from self._below(entry.path, f"{prefix}{entry.name}/", (), self._selection)
                    elif not rest and self._selection.takes(entry.name):
                        status = entry.stat()
                        yield SeenFile(prefix + entry.name, status.st_size, status.st_mtime_ns)
                except FileNotFoundError:
                    continue


def hidden_name(name: str) -> str:
    """The name of a file while it is being removed: a hidden name in the same folder. Listings skip such names."""
    folder, slash, own = name.rpartition("/")
    return f"{folder}{slash}.tidegate-{blake2b(os.fsencode(own), digest_size=16).hexdigest()}"


def in_order(files: Sequence[SeenFile]) -> list[SeenFile]:
    """The files sorted by time, files with the same time by name."""
    return sorted(files, key=lambda seen: (seen.mtime_ns, seen.name))


def _listed(folder: str) -> _Entries:
    return _Entries(folder)


class _Entries:
    """The entries of a folder; empty if it does not exist."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __enter__(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._folder) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def __exit__(self, *_: object) -> None:
        return None


def _free(target: Path) -> Path:
    """A path that does not exist yet, made from `target`."""
    number, wanted = 1, target
    while target.exists():
        target = wanted.with_name(f"{wanted.name}.{number}")
        number += 1
    return target


def _copy_over(source: Path, target: Path) -> None:
    """Move a file to another disk: copy it under a hidden name, rename the copy, then remove the original."""
    import shutil

    hidden = target.with_name(f".{target.name}.partial")
    shutil.copy2(source, hidden)
    os.rename(hidden, target)
    source.unlink()
