"""Makes files and their names survive a power loss, and translates errors of a disk.

All syncs of tidegate are here (except SQLite's own: see `tidegate.sinks.sqlite.disk`), because no code may trust a read
after a failed sync.

Linux reports a failed write-back once. Then it marks the pages as clean, even if they are not on disk. A second sync of
the same file has nothing to write, succeeds, and proves nothing. A read shows the new data from memory, in this process
and in the next one, until the page is dropped or the power fails. So three rules hold.

1. A failed sync raises `SyncFailed`, and only the end of the process solves it. It is not an OSError, so no retry and
   no `suppress` for errors of a disk catches it. This process remembers the file or the folder, and each later sync of
   it raises again. A job that needed the sync ends, and its driver with it.
2. The next process trusts records, not the memory of the machine. A file gets its name only after its content is
   synced, and a record is written only after everything that it refers to is synced. So data that a failed sync made
   doubtful has no record yet and is computed again. The exception are names (a rename, a link, a new folder), which the
   next process sees.
3. A sync of data that another process wrote proves nothing. So a process first changes the data that it finds and
   needs, then syncs it. For the names in a folder `sync_folder` does that: the first time in a process it changes the
   folder's time. File systems such as ext4, XFS and btrfs write their metadata through a log, in order: a change is on
   disk only if all changes before it are, and after a lost change they refuse every later one until they are mounted
   again. The content of a file is written again (`rewrite`), or by a transaction of its program (SQLite).

A full disk (ENOSPC, EDQUOT) at the sync of a new file is the one exception. The file was no part of anything yet, so
its writer removes it, and retries with another file (`sync_file`). For a file that stays (`sync_kept_file`) and for a
folder a full disk is as final as any other error.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from tidegate.core.errors import Code, TidegateError
from tidegate.core.telling import ToldError

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
TRASH = ".trash-"
_REMOVALS = 100
"""Folders that may be removed under one write: each removal is the start of another job."""
_T = TypeVar("_T")


class SyncFailed(TidegateError):
    """A sync failed: data of `path` in the kernel may be lost, and the kernel will not report it a second time."""

    def __init__(self, error: OSError, path: str | Path, doing: str = "sync") -> None:
        self.error = error
        self.path = str(path)
        self.doing = doing
        super().__init__(
            _code_of(error),
            expected=f"to {doing}",
            found=f"{SyncFailed.__name__}: {_said(error)}",
            where=self.path,
            next_step=_NEXT_STEPS.get(error.errno or 0, _MEND),
        )

    def again(self, doing: str = "sync") -> SyncFailed:
        """The error for another attempt of the same process."""
        return SyncFailed(self.error, self.path, f"{doing} after an earlier sync failed")

    def __reduce__(self) -> tuple[type[SyncFailed], tuple[OSError, str, str]]:
        return SyncFailed, (self.error, self.path, self.doing)


def is_of_a_failed_sync(error: BaseException) -> bool:
    """True if an error comes from a failed sync, here or in a task of Spark's that reported it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SyncFailed) or (isinstance(cause, ToldError) and SyncFailed.__name__ in cause.causes):
            return True
        cause = cause.__cause__
    return False


class Trust:
    """Turns a disk's errors into TidegateErrors, and ends all work of its owner after a failed sync."""

    def __init__(self) -> None:
        self._failure: SyncFailed | None = None

    @contextmanager
    def over(self, where: Path, doing: str) -> Generator[None, None, None]:
        """Run the body. The error contains `where` and `doing`."""
        if self._failure is not None:
            raise self._failure.again(doing) from self._failure
        try:
            yield
        except SyncFailed as error:
            self._failure = error
            raise
        except OSError as error:
            raise storage_error(error, where, doing) from error


def sync_file(descriptor: int) -> None:
    """Make the content of a new file durable. Raises OSError on a full disk; the caller then removes the file."""
    try:
        _sync(descriptor)
    except SyncFailed as error:
        if error.error.errno in NO_SPACE:
            raise error.error from None
        raise


def write_synced(path: Path, data: bytes) -> None:
    """Create `path` with `data`, durable at return; its name is not durable yet. After an error the caller removes the
    file.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_kept_file(descriptor: int) -> None:
    """Make the content of a file durable that is never removed: every error is final for this process."""
    _refuse_if_failed(descriptor)
    try:
        _sync(descriptor)
    except SyncFailed as error:
        _remember(descriptor, error)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: those that any process has added, and those that it has removed.

    The first call in this process changes the folder first: see the head of this module. A process that may not change
    the folder only reads it, and then nothing is proven durable.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _refuse_if_failed(descriptor)
        _change_once(descriptor)
        try:
            _sync(descriptor)
        except SyncFailed as error:
            _remember(descriptor, error)
            raise
    finally:
        os.close(descriptor)


def change_folder(folder: Path) -> None:
    """Change the time of a folder, the first time in this process, so that `sync_folder` has something to write.
    Callers that compare times call this before they read them.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _change_once(descriptor)
    finally:
        os.close(descriptor)


def rewrite(path: Path) -> None:
    """Write every page of a file again, unchanged, and sync it: the sync of its writer may have failed.

    Other processes may append to the file in the meantime, but not overwrite it.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        at = 0
        while block := os.pread(descriptor, _BLOCK_BYTES, at):
            rest = memoryview(block)
            while rest:
                written = os.pwrite(descriptor, rest, at)
                rest, at = rest[written:], at + written
        sync_kept_file(descriptor)
    finally:
        os.close(descriptor)


def sync_failed(path: Path, error: OSError) -> SyncFailed:
    """The error to raise if another program inside this process reports a failed sync of `path`."""
    failed = SyncFailed(error, path)
    with _lock:
        _failed[str(path)] = failed
    return failed


def refuse_if_failed(path: Path) -> None:
    """Raise if `sync_failed` was called for `path` before."""
    if (before := _failed.get(str(path))) is not None:
        raise before.again() from before


def ensure_folder(folder: Path) -> None:
    """Create `folder` (absolute) and its parents, if missing, with names that survive a power loss.

    An existing folder proves nothing (its creator may have been killed before the sync). So the first call of this
    process for any folder syncs its parent. Other processes may remove the folder and its parents while they are empty.
    """
    outlasting_removals(lambda: _ensure_folder(folder))


def outlasting_removals(write: Callable[[], _T]) -> _T:
    """What `write` gives, called again where a folder was removed before it had a file: jobs that start at once share
    the folder of their checkpoints, and each removes what it finds empty.
    """
    for _ in range(_REMOVALS):
        with suppress(FileNotFoundError):
            return write()
    return write()


def _ensure_folder(folder: Path) -> None:
    if _is_settled(folder):
        return
    if not _stands_by_itself(folder):
        _ensure_folder(folder.parent)
        with suppress(FileExistsError):
            os.mkdir(folder)
        sync_folder(folder.parent)
    _settled[folder] = _identity(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder, after a rename: a half-removed folder never has its old name again, even after a power loss.

    A killed process may leave it under its new name, which begins with `TRASH`.
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
    """True if a folder that changes after `now_ns` would get another time than `mtime_ns`.

    A file's time moves in steps: a clock tick (4 to 10 ms) on most file systems, one or two seconds on those with whole
    seconds only (ext4 with small inodes, FAT).
    """
    margin_ns = _SECOND_NS // 10 if mtime_ns % _SECOND_NS else 3 * _SECOND_NS
    return mtime_ns < now_ns - margin_ns


def storage_error(error: OSError, where: Path, doing: str) -> TidegateError:
    """`error` as an error of the catalogue: the disk is full, or it cannot be used."""
    return TidegateError(
        _code_of(error),
        expected=f"to {doing}",
        found=f"{type(error).__name__}: {_said(error)}",
        where=str(where),
        next_step=_NEXT_STEPS.get(error.errno or 0, _MEND),
    )


_BLOCK_BYTES = 1 << 20
_SECOND_NS = 1_000_000_000

_settled: dict[Path, Identity] = {}
"""The folders whose names this process knows to be durable, with the folder that had the name."""


Identity: TypeAlias = tuple[int, int]

_lock = threading.Lock()

_failed: dict[str, SyncFailed] = {}
"""The error of each failed sync of this process, by path. Entries are never removed."""

_changed: OrderedDict[Identity, None] = OrderedDict()
"""The folders that this process has changed before their sync, the newest last."""

_CHANGED_AT_MOST = 10_000
"""A forgotten folder is changed once more."""


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise SyncFailed(error, _path_of(descriptor)) from error


def _remember(descriptor: int, error: SyncFailed) -> None:
    with _lock:
        _failed[_path_of(descriptor)] = error


def _refuse_if_failed(descriptor: int) -> None:
    if _failed:
        refuse_if_failed(Path(_path_of(descriptor)))


def _change_once(descriptor: int) -> None:
    identity = _identity_of(os.fstat(descriptor))
    if identity in _changed:
        return
    try:
        os.utime(descriptor)
    except OSError as error:
        if error.errno not in _MAY_NOT_CHANGE:
            raise
    with _lock:
        _changed[identity] = None
        while len(_changed) > _CHANGED_AT_MOST:
            _changed.popitem(last=False)


def _path_of(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # no /proc
        return "file {} of device {}".format(*reversed(_identity_of(os.fstat(descriptor))))


_MAY_NOT_CHANGE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def _is_settled(folder: Path) -> bool:
    known = _settled.get(folder)
    if known is None:
        return False
    try:
        return known == _identity(folder)
    except FileNotFoundError:
        return False


def _stands_by_itself(folder: Path) -> bool:
    """True if no earlier start can have created `folder`: it is a mount point, or this user may not write in its
    parent.
    """
    return folder.exists() and (os.path.ismount(folder) or not os.access(folder.parent, os.W_OK))


def _identity(folder: Path) -> Identity:
    return _identity_of(os.stat(folder))


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _code_of(error: OSError) -> Code:
    return Code.STORAGE_FULL if error.errno in NO_SPACE else Code.STORAGE_UNUSABLE


def _said(error: OSError) -> str:
    return f"{error.strerror or error} (errno {error.errno})"


_MEND = "repair the error that the operating system reports for that path (see `ls -ld` and `df`), then start again"
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
