"""What makes a file and its name survive a power loss, and a disk's errors in tidegate's own words."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidegate.core.errors import Code, TidegateError

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
TRASH = ".trash-"


class SyncFailed(OSError):
    """A sync failed: what the kernel held of the file may be lost, and it will not say so a second time."""


def is_of_a_failed_sync(error: BaseException) -> bool:
    """Whether an error comes from a sync that failed, here or in a task of Spark's, which hands on its text alone."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SyncFailed) or SyncFailed.__name__ in str(cause):
            return True
        cause = cause.__cause__
    return False


class Trust:
    """Turns a disk's errors into TidegateErrors, and ends all work after a failed sync.

    Linux reports a failed write-back once and then calls the lost pages clean, so a second sync of the same file
    succeeds and proves nothing. Hence nothing more is done through an object whose sync failed.
    """

    def __init__(self) -> None:
        self._failure: SyncFailed | None = None

    @contextmanager
    def over(self, where: Path, doing: str) -> Generator[None, None, None]:
        """Run the body; `where` and `doing` stand in the error."""
        if self._failure is not None:
            raise storage_error(self._failure, where, f"{doing} after an earlier sync failed")
        try:
            yield
        except SyncFailed as error:
            self._failure = error
            raise storage_error(error, where, doing) from error
        except OSError as error:
            raise storage_error(error, where, doing) from error


def sync_file(descriptor: int) -> None:
    """Make the content of an open file durable. A full disk is told apart: there the caller drops the file."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
        raise SyncFailed(error.errno, error.strerror) from error


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: those that were added, and those that went."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror) from error
    finally:
        os.close(descriptor)


def ensure_folder(folder: Path) -> None:
    """Make `folder` (absolute) exist, with a name that survives a power loss, and so for every folder above it.

    A folder that exists already proves nothing (whoever made it may have been killed before the sync), so the
    first look of this process at any folder syncs the one above.
    """
    if _is_settled(folder):
        return
    if not _stands_by_itself(folder):
        ensure_folder(folder.parent)
        with suppress(FileExistsError):
            os.mkdir(folder)
        sync_folder(folder.parent)
    _settled[folder] = _identity(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder, by a rename first: what is half removed never has its name again, even after a power loss.

    Under its other name, which begins with `TRASH`, a killed process may leave it.
    """
    trash = folder.with_name(f"{TRASH}{folder.name.removeprefix('.')}")
    if trash.exists():
        shutil.rmtree(trash)
    try:
        os.rename(folder, trash)
    except FileNotFoundError:
        return
    sync_folder(folder.parent)
    shutil.rmtree(trash)


def is_clearly_older(mtime_ns: int, now_ns: int) -> bool:
    """Whether a folder changed after `now_ns` would have another time than `mtime_ns`.

    A file's time moves in steps: a clock tick (4 to 10 ms) on most file systems, one or two seconds on those that
    keep whole seconds only (ext4 with small inodes, FAT).
    """
    margin_ns = _SECOND_NS // 10 if mtime_ns % _SECOND_NS else 3 * _SECOND_NS
    return mtime_ns < now_ns - margin_ns


def storage_error(error: OSError, where: Path, doing: str) -> TidegateError:
    """`error` in the words of the catalogue: the disk is full, or it cannot be used."""
    full = error.errno in NO_SPACE
    return TidegateError(
        Code.STORAGE_FULL if full else Code.STORAGE_UNUSABLE,
        expected=f"to {doing}",
        found=f"{type(error).__name__}: {error.strerror or error} (errno {error.errno})",
        where=str(where),
        next_step=_NEXT_STEPS.get(error.errno or 0, "mend what the operating system names, then start again"),
    )


_SECOND_NS = 1_000_000_000

_settled: dict[Path, tuple[int, int]] = {}
"""The folders whose names this process knows to be durable, and which folder it was that had the name."""


def _is_settled(folder: Path) -> bool:
    known = _settled.get(folder)
    if known is None:
        return False
    try:
        return known == _identity(folder)
    except FileNotFoundError:
        return False


def _stands_by_itself(folder: Path) -> bool:
    """Whether no earlier start can have made `folder`: it is mounted, or its parent is not ours to write in."""
    return folder.exists() and (os.path.ismount(folder) or not os.access(folder.parent, os.W_OK))


def _identity(folder: Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


_SPACE = "make space (or raise the quota), then start again: nothing was half written"
_RIGHTS = "give this user the right to create, link and remove files there, then start again"
_OTHER_FOLDER = "choose a folder on a local file system with hard links, locks and folder sync (checkpointing.dir)"

_NEXT_STEPS = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EACCES: _RIGHTS,
    errno.EPERM: f"{_RIGHTS}; or {_OTHER_FOLDER}",
    errno.EROFS: "mount the file system so that it can be written, then start again",
    errno.ENOTDIR: "a file stands where a folder is needed: move it away, then start again",
    errno.EISDIR: "a folder stands where a file is needed: move it away, then start again",
    errno.EIO: "the disk lost data: check it (kernel log), reboot or replace it, then start again",
    errno.EMFILE: "raise the limit on open files (ulimit -n), then start again",
    errno.EINVAL: _OTHER_FOLDER,
    errno.ENOLCK: _OTHER_FOLDER,
    errno.ENOSYS: _OTHER_FOLDER,
    errno.EOPNOTSUPP: _OTHER_FOLDER,
}
