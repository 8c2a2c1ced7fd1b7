"""A host's record of the transactional ids in use: a *place*, with one file for each *slot* of a sink.

    <root>/<8 hex digits>/<job id>.<query>.<sink>/<slot>

A process uses an id only while it holds the lock of its slot's file, so no two processes share an id. Another host, a
new container or a wiped disk is another place with other ids.

A slot serves one task attempt of an epoch. It has two *turns*: while the transaction of one waits for its commit, the
producer of the other can be opened. For each turn the file holds the epoch of its last use. This is written and synced
before the transaction is prepared. A turn is free again when that epoch is finished, or when a newer run needs it.
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
    """The last use of a turn."""

    generation: int
    run: int
    epoch: int

    @classmethod
    def by(cls, attempt: Attempt) -> Use:
        return cls(attempt.sink.generation, attempt.run, attempt.epoch)


class Slot:
    """A slot that this process holds until it ends: closing its file would release the lock."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self.place = file.parent.parent.name
        self.number = int(file.name)
        self._file = file
        self._descriptor = descriptor

    def is_there(self) -> bool:
        """True if the locked file still has its name. Otherwise the folder was emptied, and another process may hold a
        new file of that name.
        """
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._file.stat())
        except FileNotFoundError:
            return False

    def used(self, turn: int) -> Use | None:
        """The last use of `turn`. None: never used, or its entry is torn, and its transaction was not prepared."""
        data = os.pread(self._descriptor, _RECORD.size, turn * _RECORD.size)
        if len(data) < _RECORD.size:
            return None
        generation, run, epoch, checksum = _RECORD.unpack(data)
        return Use(generation, run, epoch) if checksum == _checksum(data) else None

    def note(self, turn: int, use: Use) -> None:
        """Write the use durably, before its transaction is prepared."""
        data = _RECORD.pack(use.generation, use.run, use.epoch, 0)
        data = _RECORD.pack(use.generation, use.run, use.epoch, _checksum(data))
        os.pwrite(self._descriptor, data, turn * _RECORD.size)
        sync_kept_file(self._descriptor)

    def is_free(self, turn: int, use: Use, finished: int) -> bool:
        """True if `turn` may serve `use`: its last use is finished, or belongs to an older run."""
        last = self.used(turn)
        if last is None or (last.generation, last.run) < (use.generation, use.run):
            return True
        return last.generation == use.generation and last.epoch <= finished

    def serves(self, use: Use) -> bool:
        """True if a turn of this slot was used in exactly this epoch and run."""
        return use in (self.used(turn) for turn in range(TURNS))


def take_slot(root: Path, identity: SinkIdentity, held: frozenset[int]) -> Slot:
    """The first slot of the sink in this host's place that no process holds. `held`: this process's own slots.

    Raises OSError if the place cannot be written.
    """
    place = _place(root)
    folder = place / sink_part(identity)
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        # Never opened twice in one process: closing the second descriptor would release the lock of the first.
        if number not in held:
            file = folder / str(number)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _lock(descriptor):
                return Slot(file, descriptor)
            os.close(descriptor)
        number += 1


def default_root() -> Path:
    """On this host's own disk, and only for this user."""
    return Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}"


def _place(root: Path) -> Path:
    """This host's place below `root`: the digits in the file `place`. The file is created once for each boot of the
    host.

    A file of another boot was copied with an image, and a torn file is the result of a power loss. In both cases a new
    place begins.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    named, host = root / "place", _this_host()
    found = _digits_in(named, host)
    if found is None:
        mine = root / f"place.{os.getpid()}-{secrets.token_hex(4)}"
        write_synced(mine, f"{secrets.token_hex(4)} {host}".encode())
        mine.replace(named)
        # Another process may have written its digits at the same time. Both places are valid.
        found = _digits_in(named, host)
    if found is None:
        raise FileNotFoundError(f"{named} was created but does not exist")
    return root / found


def _digits_in(named: Path, host: str) -> str | None:
    """The number of this host's place in the file `named`; None if the file is missing, torn or from another host."""
    try:
        digits, _, whose = named.read_text("utf-8").partition(" ")
    except FileNotFoundError:
        return None
    return digits if _DIGITS.fullmatch(digits) and whose == host else None


def _this_host() -> str:
    """An id of this boot of this machine, different from other boots and from copies of the machine."""
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
