"""What makes a file and its name survive a power loss, and a disk's errors in tidegate's own words.

Every sync of tidegate is made here (those of SQLite are its own: `tidegate.sinks.sqlite.disk` says what is made of
them), because a sync that failed must not be followed by a look that believes it.

Linux tells of a failed write-back once. Then it calls the pages clean, whether they are on the disk or not. A second
sync of the same file has nothing to write, succeeds, and proves nothing; a read shows the new data from memory, in this
process and in the next one, until the page is dropped or the power goes. So three rules hold.

1. A failed sync raises `SyncFailed`, and the end of the process is the only way on. It is no OSError: a "try again" or
   a `suppress` for what a disk says does not catch it. This process remembers the file or the folder, and each later
   sync of it raises again. A job that needed the sync ends, and its driver with it.
2. The next process believes a record, not the memory of the machine. A file gets its name only when its content is
   synced, and a record is written only when all that it speaks of is synced. So what a failed sync made doubtful has no
   record yet and is computed again, except for names (a rename, a link, a new folder), which the next process sees.
3. Nothing is proven by a sync of what this process did not write. So what it finds and wants to believe is first
   changed, then synced. For the names in a folder `sync_folder` does that: the first time in a process it changes the
   folder's time. File systems such as ext4, XFS and btrfs write their metadata through a log, in order: a change is on
   the disk only when all changes before it are, and where one of them was lost they refuse every later one until they
   are mounted again. The content of a file is written again (`rewrite`), or by a transaction of its program (SQLite).

A full disk (ENOSPC, EDQUOT) at the sync of a new file is the one exception. The file was no part of anything yet; its
writer removes it, and tries again with another file (`sync_file`). For a file that stays (`sync_kept_file`) and for a
folder it is as final as any other error.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from tidegate.core.errors import Code, TidegateError
from tidegate.core.telling import Told

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
TRASH = ".trash-"


class SyncFailed(TidegateError):
    """A sync failed: what the kernel held of `path` may be lost, and it will not say so a second time."""

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
        """What to raise when the same process comes once more."""
        return SyncFailed(self.error, self.path, f"{doing} after an earlier sync failed")

    def __reduce__(self) -> tuple[type[SyncFailed], tuple[OSError, str, str]]:
        return SyncFailed, (self.error, self.path, self.doing)


def is_of_a_failed_sync(error: BaseException) -> bool:
    """Whether an error comes from a sync that failed, here or in a task of Spark's, which has told of it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SyncFailed) or (isinstance(cause, Told) and SyncFailed.__name__ in cause.causes):
            return True
        cause = cause.__cause__
    return False


class Trust:
    """Turns a disk's errors into TidegateErrors, and ends all work of its owner after a failed sync."""

    def __init__(self) -> None:
        self._failure: SyncFailed | None = None

    @contextmanager
    def over(self, where: Path, doing: str) -> Generator[None, None, None]:
        """Run the body; `where` and `doing` stand in the error."""
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
    """Make the content of a new file durable. On a full disk it raises OSError: there the caller drops the file."""
    try:
        _sync(descriptor)
    except SyncFailed as error:
        if error.error.errno in NO_SPACE:
            raise error.error from None
        raise


def write_synced(path: Path, data: bytes) -> None:
    """Create `path` with `data`, durable at return; its name is not. The caller drops what an error leaves."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_kept_file(descriptor: int) -> None:
    """Make the content of a file durable that stays whatever happens: every error is final, for this process."""
    _refuse_if_failed(descriptor)
    try:
        _sync(descriptor)
    except SyncFailed as error:
        _remember(descriptor, error)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: those that any process has added, and those that it has removed.

    The first time in this process the folder is changed before: see the head of this module. A process that may not
    change the folder only looks at it, and nothing durable follows from that.
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
    """Change the time of a folder, the first time in this process: `sync_folder` then has something to write. For a
    caller that compares times, before it looks at them."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _change_once(descriptor)
    finally:
        os.close(descriptor)


def rewrite(path: Path) -> None:
    """Write every page of a file again as it stands, and sync it: the sync of its writer may have failed.

    Its bytes do not change. Other processes may append to it meanwhile, and not write over what stands there.
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
    """The error to raise where another program, inside this process, says that its sync of `path` has failed."""
    failed = SyncFailed(error, path)
    with _lock:
        _failed[str(path)] = failed
    return failed


def refuse_if_failed(path: Path) -> None:
    """Raise where `sync_failed` was said of `path` before."""
    if (before := _failed.get(str(path))) is not None:
        raise before.again() from before


def ensure_folder(folder: Path) -> None:
    """Make `folder` (absolute) exist, with a name that survives a power loss, and so for every folder above it.

    A folder that exists already proves nothing (its maker may have been killed before the sync), so the
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
"""The folders whose names this process knows to be durable, and which folder it was that had the name."""


Identity: TypeAlias = tuple[int, int]

_lock = threading.Lock()

_failed: dict[str, SyncFailed] = {}
"""What a sync of this process failed for, by its path. Nothing takes an entry out again."""

_changed: OrderedDict[Identity, None] = OrderedDict()
"""The folders that this process has changed before it synced them, the newest last."""

_CHANGED_AT_MOST = 10_000
"""A folder that was forgotten is changed once more."""


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
    """Whether no earlier start can have made `folder`: it is mounted, or its parent is not ours to write in."""
    return folder.exists() and (os.path.ismount(folder) or not os.access(folder.parent, os.W_OK))


def _identity(folder: Path) -> Identity:
    return _identity_of(os.stat(folder))


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _code_of(error: OSError) -> Code:
    return Code.STORAGE_FULL if error.errno in NO_SPACE else Code.STORAGE_UNUSABLE


def _said(error: OSError) -> str:
    return f"{error.strerror or error} (errno {error.errno})"


_MEND = "mend what the operating system says of that path (`ls -ld` and `df` show it), then start again"
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
