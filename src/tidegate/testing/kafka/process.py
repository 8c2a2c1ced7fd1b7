"""Background processes, identified by process id and start time, because the system reuses process ids."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

_LOOK_SECONDS = 0.02


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process, identified by its process id and its start time (in clock ticks since boot, or as a date)."""

    pid: int
    since: str

    def is_alive(self) -> bool:
        return self._state() is not None

    def is_paused(self) -> bool:
        """True if the process and all its threads are stopped (SIGSTOP)."""
        return self._state() == _PAUSED and all(state == _PAUSED for state in _thread_states(self.pid))

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process. Does nothing if the process has ended."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _state(self) -> str | None:
        """The kernel's letter for the process state, such as `R` or `T`; None if the process has ended."""
        child = _children.get(self.pid)
        if child is not None and child.poll() is not None:
            del _children[self.pid]
        seen = _look(self.pid)
        return seen[0] if seen is not None and seen[1] == self.since else None


def spawn(command: Sequence[str], folder: Path, log: Path) -> Process:
    """Start a process that outlives this one. Its output is appended to `log`."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal is not for it
        )
    _children[child.pid] = child
    seen = _look(child.pid)
    return Process(pid=child.pid, since="" if seen is None else seen[1])


def end(processes: Sequence[Process], grace_seconds: float) -> None:
    """Send SIGTERM to all processes, SIGKILL after `grace_seconds` to those still alive.

    Returns when all have ended.
    """
    for process in processes:
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)
    if not _gone(processes, grace_seconds):
        kill(processes)


def kill(processes: Sequence[Process]) -> None:
    """Send SIGKILL to all processes. Returns when all have ended."""
    for process in processes:
        process.send(signal.SIGKILL)
    _gone(processes, _SIGNAL_SECONDS)


_SIGNAL_SECONDS = 30.0

_children: dict[int, subprocess.Popen[bytes]] = {}
"""Those that this process started: asked now and then, so that none stays a zombie."""


def pause(processes: Sequence[Process]) -> None:
    """Send SIGSTOP to all processes. Returns when all have stopped, which takes a while on a busy machine."""
    for process in processes:
        process.send(signal.SIGSTOP)
    _until(lambda: all(process.is_paused() or not process.is_alive() for process in processes), _SIGNAL_SECONDS)


def _gone(processes: Sequence[Process], seconds: float) -> bool:
    return _until(lambda: not any(process.is_alive() for process in processes), seconds)


def _until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition is true. Returns False if it is still false after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _look(pid: int) -> tuple[str, str] | None:
    """State and start time of a process. None if it has ended, also if it is a zombie."""
    return _from_proc(pid) if _BOOT.exists() else _from_ps(pid)


_ENDED = frozenset({"Z", "X"})
_PAUSED = "T"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def _from_proc(pid: int) -> tuple[str, str] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The first thread of a killed process is a zombie while others still end, and hold its ports until then.
    if fields[0] in _ENDED and int(fields[17]) <= 1:
        return None
    return fields[0], f"{_BOOT.read_text(encoding='utf-8').strip()} {fields[19]}"


def _thread_states(pid: int) -> list[str]:
    """The states of all threads of a process; empty if the system has no `/proc` folder for them."""
    states: list[str] = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            states.append(path.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][:1])
    return states


def _from_ps(pid: int) -> tuple[str, str] | None:
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    state, _, since = shown.stdout.strip().partition(" ")
    return (state[0], since.strip()) if state and state[0] not in _ENDED else None
