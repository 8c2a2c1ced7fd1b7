"""The processes of a dead driver: its JVM and Spark's Python workers. They are found by their session and ended by
number.

A supervisor starts each driver as the leader of a session of its own (setsid). All processes that the driver starts
belong to this session, even after their parent changes. The system does not reuse a number while a process of its
session is alive. So the number of the dead leader still identifies only this driver's processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path


def processes_of(session: int) -> list[int]:
    """The living processes of a session. A zombie process does not count."""
    return _from_proc(session) if _PROC_STAT.exists() else _from_ps(session)


def end_processes(
    session: int, grace_seconds: float, *, bound_seconds: float = 10.0, spare: int | None = None
) -> list[int]:
    """Wait for the processes of a session to end by themselves, then kill them. Returns the processes that remain.

    A JVM whose Python is gone ends within some seconds and removes its temporary files. SIGKILL does not end a process
    that waits for an unresponsive disk or file server: after `bound_seconds` it is left alone.
    """
    end = time.monotonic() + grace_seconds
    while living := [each for each in processes_of(session) if each != spare]:
        if time.monotonic() >= end:
            for process in living:
                _kill(process)
        if time.monotonic() >= end + bound_seconds:
            break
        time.sleep(_LOOK_SECONDS)
    return living


def memory_of(session: int) -> int:
    """The resident memory of all processes of a session, in bytes. Memory that they share counts for each of them."""
    listed = [str(process) for process in processes_of(session)]
    if not listed:
        return 0
    found = subprocess.run(["ps", "-o", "rss=", "-p", ",".join(listed)], capture_output=True, text=True, check=False)
    return sum(int(line) for line in found.stdout.split()) * 1024


_PROC = Path("/proc")
_PROC_STAT = _PROC / "self" / "stat"
_LOOK_SECONDS = 0.02
_STATE, _SESSION = 0, 3
"""Positions in `/proc/N/stat` after the name in brackets (proc(5)): state, parent, group, session."""


def _kill(process: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended meanwhile, or belongs to another user (sudo)
        os.kill(process, signal.SIGKILL)


def _from_proc(session: int) -> list[int]:
    found: list[int] = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except (
            FileNotFoundError,
            ProcessLookupError,
            PermissionError,
        ):  # it has ended meanwhile, or belongs to another user
            continue
        if int(fields[_SESSION]) == session and fields[_STATE] not in (b"Z", b"X"):
            found.append(int(entry.name))
    return found


def _from_ps(session: int) -> list[int]:
    """Without /proc: `ps` gives the states, the system call gives the sessions."""
    listed = subprocess.run(["ps", "-axo", "pid=,state="], capture_output=True, text=True, check=True).stdout
    found: list[int] = []
    for line in listed.splitlines():
        number, _, state = line.strip().partition(" ")
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(number)) == session and not state.strip().startswith("Z"):
                found.append(int(number))
    return found
