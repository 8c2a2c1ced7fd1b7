"""Processes that share an ingest log in pieces, under seeds: each is paused before any request, for any time.

One process after the other takes the log over, and the earlier ones do not know it. Only the newest computes epochs,
which take the rows behind the last epoch; each may trim what is computed. In the end every row that was confirmed was
computed once, and no row was computed twice.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from tidegate.checkpoints import ingest_piece
from tidegate.checkpoints.ingest_frames import Payload
from tidegate.checkpoints.ingest_layout import IngestPosition
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_standing import OWNER, LoggedPieces, standing_in
from tidegate.core.errors import Code, TidegateError
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage
from tidegate.testing.memory_storage import Memory, MemoryStorage

FOLDER = Folder.of("s3://bucket/job/ingest/lines")
SEEDS = 100
STEPS_AT_MOST = 3000


class Killed(BaseException):
    """The process ends before a request."""


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.memory = Memory()
        self.newest = 0
        self.confirmed: list[bytes] = []
        self.computed: list[bytes] = []
        self.reached: IngestPosition | None = None
        self.processes: list[Process] = []
        self.errors: list[TidegateError] = []

    def run(self) -> None:
        """Every process ends in the end: none waits for another one."""
        for _ in range(STEPS_AT_MOST):
            living = [each for each in self.processes if each.lives]
            if len(self.processes) < 5 and (not living or self.random.random() < 0.03):
                self.newest += 1
                self.processes.append(Process(self, self.newest))
            elif living:
                self.random.choice(living[-1:] if self.random.random() < 0.8 else living).step()
            else:
                break
        assert not [each for each in self.processes if each.lives]
        self.compute(PieceLog(FOLDER, storage=MemoryStorage(self.memory)))

    def compute(self, log: PieceLog) -> None:
        """An epoch. The protocol lets none of an older process count, so it is one step here."""
        end = log.end
        begin = log.begin if self.reached is None else self.reached
        log.require(begin, "source lines")
        for part in log.parts(begin, end, "source lines"):
            self.computed += [line for frame in part.frames() for line in frame.lines()]
        self.reached = end

    def check(self) -> None:
        assert self.errors == [], "a process was stopped that no other one has replaced"
        assert len(self.computed) == len(set(self.computed)), "a row was computed twice"
        assert set(self.confirmed) <= set(self.computed), "a row that was confirmed was lost"


class Process:
    """A driver: a thread that makes one request in each `step`."""

    def __init__(self, world: World, number: int) -> None:
        self.lives = True
        self.token = b""
        self._world = world
        self._number = number
        self._may_go, self._waits = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        self._waits.acquire()

    def step(self) -> None:
        self._may_go.release()
        self._waits.acquire()

    def before_a_request(self) -> None:
        self._waits.release()
        self._may_go.acquire()
        if self._world.random.random() < 0.01:
            raise Killed

    def _work(self) -> None:
        try:
            self._drive()
        except Killed:
            pass
        except TidegateError as error:
            owner, _ = self._world.memory.records[OWNER]
            if error.catalogue_entry is not Code.LEASE_LOST or owner == self.token:
                self._world.errors.append(error)
        finally:
            self.lives = False
            self._waits.release()

    def _drive(self) -> None:
        world = self._world
        storage = cast("Storage", Paused(MemoryStorage(world.memory), self))
        log = PieceLog(FOLDER, pieces_to_trim=1, storage=storage)
        for each in range(world.random.randrange(3, 12)):
            line = b"%d %d" % (self._number, each)
            log.append([line])
            world.confirmed.append(line)
            if self._number == world.newest and world.random.random() < 0.8:
                world.compute(log)
            if world.reached is not None and world.random.random() < 0.8:
                log.trim(world.reached)


class Paused:
    """A storage whose requests wait for the next step of their process."""

    def __init__(self, storage: MemoryStorage, process: Process) -> None:
        self._storage = storage
        self._process = process

    def below(self, folder: str) -> Storage:
        return cast("Storage", Paused(self._storage.below(folder), self._process))

    def where(self, name: str = "") -> str:
        return self._storage.where(name)

    def replace(self, name: str, data: bytes) -> None:
        self._process.before_a_request()
        self._storage.replace(name, data)
        self._process.token = data

    def delete_all(self, names: list[str]) -> None:
        for name in names:
            self._process.before_a_request()
            self._storage.delete(name)

    def __getattr__(self, call: str) -> Callable[..., Any]:
        act: Callable[..., Any] = getattr(self._storage, call)

        def paused_act(*arguments: Any) -> Any:
            self._process.before_a_request()
            return act(*arguments)

        return paused_act


def broken_by(seed: int) -> str:
    """What is wrong in the end of this seed; "" if nothing is."""
    world = World(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest_piece, "open_storage", lambda folder: MemoryStorage(world.memory, f"{folder.name}/"))
        try:
            world.run()
            world.check()
        except (AssertionError, TidegateError) as error:
            return str(error)
    return ""


def put_without_a_look(self: PieceLog, payload: Payload, begin: IngestPosition) -> IngestPosition:
    if not self._created(payload, begin):
        raise self._lost("another process has written its piece")
    return self._standing.places[-1]


def take_over_without_a_piece(self: PieceLog, name: str) -> LoggedPieces:
    return standing_in(self._folder, self._storage, name)


PLANTED = {"_put": put_without_a_look, "_taken_over": take_over_without_a_piece}


@pytest.mark.parametrize("step", PLANTED)
def test_a_step_that_is_left_out_or_done_otherwise_is_caught(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PieceLog, step, PLANTED[step])
    found = {seed: broken for seed in range(SEEDS) if (broken := broken_by(seed))}
    print(f"{step}: {len(found)} of {SEEDS} seeds, such as {dict(list(found.items())[:1])}")
    assert found


def test_every_row_that_was_confirmed_is_computed_once() -> None:
    assert {seed: found for seed in range(SEEDS) if (found := broken_by(seed))} == {}
