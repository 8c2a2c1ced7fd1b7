"""Where a host remembers which transactional ids are in use: a *place*, with a file for each *slot* of a sink.

    <root>/<8 hex digits>/<job id>.<query>.<sink>/<slot>

An id is used only where its slot's file is locked, so no two processes share one; another host, a new container or a
wiped disk is another place with other ids. A slot serves one task attempt of an epoch. It has two *turns*: while the
transaction of one waits to be committed, the producer of the other can be opened. The file holds, for each turn, which
epoch it was used for last, written and synced before the transaction is prepared: a turn is free again once that
epoch is finished, or when a newer run asks.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import socket
import struct
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.disk.durable import sync_kept_file, write_synced
from tidegate.sinks.kafka.names import sink_part

TURNS = 2
_DIGITS = re.compile("[0-9a-f]{8}")
_RECORD = struct.Struct(">qqqI")
"""Generation, run, epoch, and a checksum of these: one turn's part of a slot's file."""


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """What a turn was used for last."""

    generation: int
    run: int
    epoch: int

    @classmethod
    def by(cls, attempt: Attempt) -> Use:
        return cls(attempt.sink.generation, attempt.run, attempt.epoch)


class Slot:
    """A slot that this process holds for life: closing its file would drop the lock."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self.place = file.parent.parent.name
        self.number = int(file.name)
        self._file = file
        self._descriptor = descriptor

    def is_there(self) -> bool:
        """Whether the locked file still has its name: somebody may have emptied the folder, and another process holds
        a new file of that name then."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._file.stat())
        except FileNotFoundError:
            return False

    def used(self, turn: int) -> Use | None:
        """The last use of `turn`. None: never; or the note was cut off, and its transaction was not prepared."""
        data = os.pread(self._descriptor, _RECORD.size, turn * _RECORD.size)
        if len(data) < _RECORD.size:
            return None
        generation, run, epoch, checksum = _RECORD.unpack(data)
        return Use(generation, run, epoch) if checksum == _checksum(data) else None

    def note(self, turn: int, use: Use) -> None:
        """Durably, before the transaction of this use is prepared."""
        data = _RECORD.pack(use.generation, use.run, use.epoch, 0)
        data = _RECORD.pack(use.generation, use.run, use.epoch, _checksum(data))
        os.pwrite(self._descriptor, data, turn * _RECORD.size)
        sync_kept_file(self._descriptor)

    def is_free(self, turn: int, use: Use, finished: int) -> bool:
        """Whether `turn` may serve `use`: what it served last is finished, or was an older run's."""
        last = self.used(turn)
        if last is None or (last.generation, last.run) < (use.generation, use.run):
            return True
        return last.generation == use.generation and last.epoch <= finished

    def serves(self, use: Use) -> bool:
        """Whether a turn of this slot was used in this very epoch and run."""
        return use in (self.used(turn) for turn in range(TURNS))


def take_slot(root: Path, identity: SinkIdentity, held: frozenset[int]) -> Slot:
    """The first slot of the sink in this host's place that no process holds; `held` are this process's own.

    Raises OSError where the place cannot be written.
    """
    place = _place(root)
    folder = place / sink_part(identity)
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        # Never opened twice in one process: closing the second descriptor would drop the lock of the first.
        if number not in held:
            file = folder / str(number)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _lock(descriptor):
                return Slot(file, descriptor)
            os.close(descriptor)
        number += 1


def default_root() -> Path:
    """On this host's own disk, and of this user alone."""
    return Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}"


def _place(root: Path) -> Path:
    """This host's place below `root`: the digits in the file `place`, which is made once for each start of the host.

    What says otherwise was copied with an image, or cut off by a power loss: then a new place begins.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    named, host = root / "place", _this_host()
    found = _digits_in(named, host)
    if found is None:
        mine = root / f"place.{os.getpid()}-{secrets.token_hex(4)}"
        write_synced(mine, f"{secrets.token_hex(4)} {host}".encode())
        mine.replace(named)
        # Another process may have been as quick, and its digits stand there by now: either place will do.
        found = _digits_in(named, host)
    if found is None:
        raise FileNotFoundError(f"{named} was made and is not there")
    return root / found


def _digits_in(named: Path, host: str) -> str | None:
    """The digits of this host's place, or None where the file is missing, torn or another host's."""
    try:
        digits, _, whose = named.read_text("utf-8").partition(" ")
    except FileNotFoundError:
        return None
    return digits if _DIGITS.fullmatch(digits) and whose == host else None


def _this_host() -> str:
    """What tells this start of this machine from others, also from copies of it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


def _lock(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _checksum(data: bytes) -> int:
    return zlib.crc32(data[: _RECORD.size - 4])
