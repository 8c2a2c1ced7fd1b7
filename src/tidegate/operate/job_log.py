"""The end of a job's newest log, without secrets.

Only regular files in `logs/` of the job's folder are read. Neither that folder nor a file in it may be a link: a user
who can write there could otherwise show any file. Of a file at most its last 256 KiB are read.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

import msgspec

from tidegate.core.redaction import HIDDEN, SECRETS
from tidegate.disk.durable import storage_error
from tidegate.storages.schemes import Folder

BYTES_READ = 256 * 1024
CHARACTERS_OF_A_LINE = 4_000
_LOGS = "logs"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""O_NONBLOCK: to open a pipe waits for its writer."""
_REST_OF_A_KEY = re.compile(r"\A(?:(?!-----BEGIN ).)*?-----END [A-Z ]{0,40}PRIVATE KEY-----", re.DOTALL)
"""A private key whose beginning is before the part that is read."""


class JobLog(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a log. `path`: the file; empty if there is none, and then `problem` says why."""

    path: str = ""
    lines: tuple[str, ...] = ()
    problem: str = ""


def read_log(job_folder: Folder) -> JobLog:
    """The end of the newest log in the job's folder. Raises STORAGE_UNUSABLE if it cannot be read."""
    if not job_folder.is_local:
        return JobLog(problem="the job's folder is not on a disk: its logs are on the machine of its driver")
    path = job_folder.local() / _LOGS
    try:
        folder = os.open(path, _FOLDER)
    except FileNotFoundError:
        return _NONE
    except NotADirectoryError:  # that is what a link to a folder is here
        return JobLog(problem=f"{_LOGS} in the job's folder is no folder of its own")
    except OSError as error:
        raise storage_error(error, path, "read the logs") from error
    try:
        newest = _newest(folder)
        if newest is None:
            return _NONE
        data, is_cut = _end_of(folder, newest)
    except OSError as error:
        raise storage_error(error, path, "read the newest log") from error
    finally:
        os.close(folder)
    return JobLog(path=str(path / newest), lines=_lines(data, is_cut=is_cut))


_NONE = JobLog(problem="the job has no log in its folder: `tidegate run` writes one")


def _newest(folder: int) -> str | None:
    """The name of the regular file that was changed last."""
    found: list[tuple[int, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
    return max(found)[1] if found else None


def _end_of(folder: int, name: str) -> tuple[bytes, bool]:
    """The end of a file, and whether something stands before it. Empty if it is no regular file any more."""
    opened = os.open(name, _FILE, dir_fd=folder)
    try:
        state = os.fstat(opened)
        if not stat.S_ISREG(state.st_mode):
            return b"", False
        begin = max(0, state.st_size - BYTES_READ)
        return os.pread(opened, BYTES_READ, begin), begin > 0
    finally:
        os.close(opened)


def _lines(data: bytes, *, is_cut: bool) -> tuple[str, ...]:
    text = data.decode("utf-8", "replace")
    if is_cut:
        text = _REST_OF_A_KEY.sub(HIDDEN, text.partition("\n")[2], count=1)
    return tuple(line[:CHARACTERS_OF_A_LINE] for line in SECRETS.hide(text).splitlines())
