"""A seeded life of a file source: it is killed anywhere, its folder moves, files come, go, change and have any time.

Spark's part is played: it asks where an epoch ends, writes that down, and commits. What has been read is compared with
what was there.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tidegate import TidegateError
from tidegate.sources.files.globs import FileSelection
from tidegate.sources.files.listing import LocalFiles
from tidegate.sources.files.lists import BEGIN
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.options import FileOptions
from tidegate.sources.files.reader import FileReader, position_of
from tidegate.storages.schemes import Folder

_STEPS = 120


@dataclass
class Life:
    """`offsets` and `commits` are Spark's logs of positions; `read` counts each version of each file in commits."""

    folder: Path
    chance: random.Random
    offsets: list[str] = field(default_factory=list[str])
    commits: int = 0
    read: dict[str, int] = field(default_factory=dict[str, int])
    there: dict[str, bytes] = field(default_factory=dict[str, bytes])
    taken_away: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, tuple[bytes, int]])
    moves: int = 0
    files: int = 0
    refusals: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    """Of each refusal its code, and whether a file was gone."""

    @property
    def root(self) -> Path:
        return self.folder / f"in-{self.moves}"

    def live(self) -> None:
        self.root.mkdir()
        for _ in range(_STEPS):
            self.disturb()
            self.start(kill_after=self.chance.randrange(6))
        self.put_back()
        for _ in range(80):  # some of these are killed, too
            self.start(kill_after=1000)

    def disturb(self) -> None:
        match self.chance.choice(("add", "add", "add", "move", "delete", "take", "put back", "other bytes")):
            case "add":
                for _ in range(self.chance.randrange(1, 4)):
                    self.add()
            case "move":
                before = self.root
                self.moves += 1
                before.rename(self.root)
            case "delete":
                for name in [name for name in self.there if name in self.read]:
                    (self.root / name).unlink()
                    del self.there[name]
            case "take":
                self.take_away()
            case "put back":
                self.put_back()
            case _:
                for name in [name for name in self.there if name in self.read][:1]:
                    (self.root / name).write_bytes(b"changed after it was read")

    def add(self) -> None:
        name, at = f"{self.files}", self.chance.choice((1, 10**9, 1_700_000_000, 4_000_000_000)) + self.files
        self.files += 1
        self.there[name] = name.encode()
        (self.root / f".{name}").write_bytes(name.encode())
        os.utime(self.root / f".{name}", (at, at))
        (self.root / f".{name}").rename(self.root / name)

    def take_away(self) -> None:
        for name in list(self.there)[-1:]:
            path = self.root / name
            self.taken_away[name] = path.read_bytes(), path.stat().st_mtime_ns
            path.unlink()
            del self.there[name]

    def put_back(self) -> None:
        for name, (data, at) in self.taken_away.items():
            (self.root / name).write_bytes(data)
            os.utime(self.root / name, ns=(at, at))
            self.there[name] = data
        self.taken_away = {}

    def start(self, kill_after: int) -> None:
        """A driver that is killed after so many steps; what it has in memory is gone."""
        newest = self.offsets[-1] if self.offsets else None
        committed = newest if newest is not None and self.commits == len(self.offsets) else None
        log = FileLog(Folder.of(self.folder / "log"), lambda uri: uri, "source", epochs_kept=3, lists_in_a_run=4)
        log.open(lambda: BEGIN if newest is None else position_of(newest))
        options = FileOptions(settle_seconds=0, max_files=self.chance.randrange(1, 4))
        reader = FileReader(options, LocalFiles(self.root, FileSelection()), log, "source", committed=committed)
        reader.catch_up()
        for _ in range(kill_after):
            if not self.step(reader, log):
                return

    def step(self, reader: FileReader, log: FileLog) -> bool:
        if self.commits < len(self.offsets):
            return self.compute(reader, log)
        start = self.offsets[-1] if self.offsets else None
        found = reader.latest(start)
        assert found is None or isinstance(found, str)
        if found == start or self.chance.random() < 0.2:  # killed between the list and Spark's log
            return False
        assert found is not None
        self.offsets.append(found)
        return self.chance.random() >= 0.2

    def compute(self, reader: FileReader, log: FileLog) -> bool:
        start, end = (self.offsets[-2] if len(self.offsets) > 1 else None), self.offsets[-1]
        wanted = [each.path for each in log.files_of(position_of(end))]
        gone = [name for name in wanted if name in self.taken_away]
        try:
            paths = reader.batch(start, end)
            names = [Path(path).name for path in paths]
            reader.verify()
        except TidegateError as error:
            self.refusals.append((error.code, bool(gone)))
            return False
        assert (names, gone) == (wanted, [])
        if self.chance.random() < 0.2:  # killed behind the tasks
            return False
        for name in names:
            self.read[name] = self.read.get(name, 0) + 1
        self.commits += 1
        log.settle_down(position_of(end))
        return self.chance.random() >= 0.1


@pytest.mark.parametrize("seed", range(3))
def test_every_file_is_read_once_whatever_happens(tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR)
    life = Life(tmp_path, random.Random(seed))
    life.live()
    assert life.read == {str(number): 1 for number in range(life.files)}
    assert set(life.refusals) <= {("TG-FILE-LOST", True)}, "every refusal is true"
    assert life.moves > 3
    shutil.rmtree(life.root)
