"""A world of processes that take, renew and lose a lease of terms: `python -m tests.simulation.lease_world --seeds N`.

Every process runs the real `TermsLease` in its own thread. It stops at each request and each sleep, so that only one
process runs at a time. Each has its own clock, with its own start, and a rate that is up to a tenth off. A request can
be slow, can fail before or after the storage has carried it out, and can be carried out after its sender has given up.
A process can be paused, with or without its clock, and can die.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tests.simulation.seeds import main_of
from tidegate.core.errors import Code, TidegateError
from tidegate.storages.lease import LeaseState
from tidegate.storages.terms.here import Here
from tidegate.storages.terms.lease import HeldTerm, TermsLease
from tidegate.storages.terms.records import Released, Term, name_of, newest_of
from tidegate.testing.memory_storage import Memory, MemoryStorage

PROCESSES: Final = 4
CHAOS_SECONDS: Final = 400.0
DRIFT: Final = 0.1
TIMEOUTS: Final = (8.0, 12.0)
ResultT = TypeVar("ResultT")


class Killed(BaseException):
    """The process is gone."""


class Process:
    """One process: a thread that goes on only when the world lets it."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.rate = 1 + world.rng.uniform(-DRIFT, DRIFT)
        self.begun = world.rng.uniform(0, 1000)
        self.stood_still = 0.0
        self.was_suspended = False
        self.wakes_at = world.now
        self.dies_at: float | None = None
        self.over = False
        self.looked_at = 0.0
        self.error: BaseException | None = None
        self.timeout = world.rng.choice(TIMEOUTS)
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        here = Here(self.clock, self.sleep, lambda: number)
        self.lease = TermsLease(RequestedStorage(world, self), self.timeout, here=here)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    # --- its time ------------------------------------------------------------------------------------------

    def clock(self) -> float:
        return self.clock_at(self.world.now)

    def clock_at(self, time: float) -> float:
        return self.begun + (time - self.stood_still) * self.rate

    def sleep(self, seconds: float) -> None:
        """Of its own clock."""
        self.wait(seconds / self.rate)

    def wait(self, seconds: float) -> None:
        """Of the world's time: the others go on."""
        self.wakes_at = self.world.now + seconds + 0.001
        chance = self.world.rng.random()
        if chance < self.world.harshness / 5 and not self.world.is_healed:
            pause = self.world.rng.uniform(0.3, 3) * self.timeout
            self.wakes_at += pause
            self.world.figures["paused"] += 1
            if chance < self.world.harshness / 25:
                self.was_suspended = True
                self.stood_still += pause
                self.world.figures["suspended"] += 1
        self._back.release()
        self._go.acquire()
        if self.dies_at is not None and self.world.now >= self.dies_at:
            raise Killed

    def go_on(self) -> None:
        """By the world: until it waits again, or is over."""
        self._go.release()
        self._back.acquire()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._drive()
        except Killed:
            self.world.figures["killed"] += 1
        except BaseException as error:  # noqa: BLE001 (told by the world)
            self.error = error
        self.over = True
        self._back.release()

    # --- what it does --------------------------------------------------------------------------------------

    def _drive(self) -> None:
        world, rng = self.world, self.world.rng
        while not world.is_healed:
            try:
                held = self.lease.take("job", rng.choice((0.0, 5.0, 15.0)))
            except TidegateError as error:
                world.figures[f"refused: {error.code}"] += 1
                self.wait(rng.uniform(0.1, 6))
                if rng.random() < 0.3:
                    self._look()
                continue
            world.took(self, held)
            self._hold(held)

    def _look(self) -> None:
        try:
            free = self.lease.standing() is LeaseState.FREE
        except TidegateError:
            return
        self.world.figures["looked: free" if free else "looked: held"] += 1

    def _hold(self, held: HeldTerm) -> None:
        rng = self.world.rng
        due = self.clock() + held.renewal_seconds
        hangs = False  # the thread that renews, while others go on to act
        for _ in range(rng.randrange(4, 60)):
            if held.lost_here() is not None:
                self.world.figures["lost"] += 1
                return
            self.world.acts(self, held)
            if self.clock() >= due and not hangs:
                due = self.clock() + self._renewed(held)
                hangs = rng.random() < self.world.harshness
            elif rng.random() < 0.2:
                self._asks(held)
            self.sleep(rng.uniform(0.05, 0.4) * held.renewal_seconds)
        if rng.random() < 0.5:
            held.release()
            self.world.figures["released"] += 1
        else:
            self.dies_at = self.world.now
            self.wait(0)

    def _renewed(self, held: HeldTerm) -> float:
        try:
            held.renew()
        except TidegateError:
            self.world.figures["renewal failed"] += 1
            return held.renewal_seconds / 4
        self.world.figures["renewed"] += 1
        return held.renewal_seconds

    def _asks(self, held: HeldTerm) -> None:
        before = self.world.newest
        try:
            lost = held.lost()
        except TidegateError:
            return
        if lost is None and before > self.world.number_of(held):
            self.world.trouble(f"process {self.number} was told that it holds the lease, and term {before} was there")
        if lost is not None and "newer term" in lost.found:
            self.world.figures["saw a newer term"] += 1


class RequestedStorage(MemoryStorage):
    """The storage as one process reaches it."""

    def __init__(self, world: World, process: Process, root: str = "") -> None:
        super().__init__(world.memory, root)
        self._world, self._process = world, process

    def below(self, folder: str) -> RequestedStorage:
        return RequestedStorage(self._world, self._process, f"{self._name(folder)}/")

    def put_if_absent(self, name: str, data: bytes) -> bool:
        put, looked_at = super().put_if_absent, self._process.looked_at
        return self._asked(lambda: self._landed(name, put(name, data), looked_at), settled=True)

    def replace(self, name: str, data: bytes) -> None:
        replace = super().replace
        self._asked(lambda: self._landed(name, replace(name, data) is None))

    def read(self, name: str) -> bytes | None:
        read = super().read
        return self._asked(lambda: read(name))

    def list(self, folder: str) -> list[str]:
        listed = super().list
        self._process.looked_at = self._world.now
        return self._asked(lambda: listed(folder))

    def delete(self, name: str) -> None:
        delete = super().delete
        self._asked(lambda: delete(name))
        self._world.look_at_the_newest()

    def _landed(self, name: str, created: bool, looked_at: float = 0.0) -> bool:
        if created:
            self._world.landed(self._process, name, looked_at)
        return created

    def _asked(self, act: Callable[[], ResultT], *, settled: bool = False) -> ResultT:
        """One request. `settled`: its error does not show if it has landed (`Storage.put_if_absent`)."""
        world, rng = self._world, self._world.rng
        self._process.wait(world.latency())
        chance = 1.0 if world.is_healed else rng.random() / world.harshness
        if chance < 0.3:
            world.figures["request lost"] += 1
            raise _unavailable()
        if chance < 0.5:
            world.later(rng.uniform(0.1, 15), act)
            raise _unavailable()
        result = act()
        self._process.wait(world.latency())
        if chance < 0.8 and not settled:
            world.figures["answer lost"] += 1
            raise _unavailable()
        return result


@dataclass(slots=True)
class World:
    """One seed."""

    seed: int
    memory: Memory = field(default_factory=Memory)
    now: float = 0.0
    newest: int = 0
    is_healed: bool = False
    troubles: list[str] = field(default_factory=list[str])
    figures: Counter[str] = field(default_factory=Counter[str])
    rng: random.Random = field(init=False)
    harshness: float = field(init=False)
    """The share of requests that are slow, and of waits in which a process stands still."""
    processes: list[Process] = field(default_factory=list[Process])
    _all: list[Process] = field(default_factory=list[Process])
    _late: list[tuple[float, Callable[[], object]]] = field(default_factory=list[tuple[float, Callable[[], object]]])
    _landings: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    _taken: set[int] = field(default_factory=set[int])
    _timeouts: dict[int, float] = field(default_factory=dict[int, float])

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.harshness = self.rng.choice((0.005, 0.02, 0.1))

    def run(self) -> list[str]:
        """What is wrong; empty when nothing is."""
        for _ in range(PROCESSES):
            self._begin()
        while self.now < CHAOS_SECONDS and not self.troubles:
            self._step()
            if self.rng.random() < 0.0015:
                self.rng.choice(self.processes).dies_at = self.now
            while len(self.processes) < PROCESSES:
                self._begin()
        self._end()
        return self.troubles

    def _begin(self) -> None:
        process = Process(self, len(self._all) + 1)
        self._all.append(process)
        self.processes.append(process)

    def _step(self) -> None:
        process = min(self.processes, key=lambda each: each.wakes_at)
        self.now = max(self.now, process.wakes_at)
        for late in [each for each in self._late if each[0] <= self.now]:
            self._late.remove(late)
            late[1]()
            self.figures["landed late"] += 1
        process.go_on()
        if process.over:
            self.processes.remove(process)
        if process.error is not None:
            self.trouble(f"process {process.number}: {type(process.error).__name__}: {process.error}")

    def _end(self) -> None:
        """Everybody dies, and what was late lands. A fresh process gets the lease after the timeout."""
        for process in self.processes:
            process.dies_at = 0.0
        while self.processes:
            self._step()
        self.now += 20
        for _, act in self._late:
            act()
        if self.troubles:
            return
        self.is_healed = True
        fresh = Process(self, len(self._all) + 1)
        fresh.dies_at = None
        taking = fresh.lease
        fresh._drive = lambda: self.took(fresh, taking.take("job", max(TIMEOUTS) * 1.1))  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        self.processes.append(fresh)
        while self.processes:
            self._step()

    # --- what the processes ask for and tell -----------------------------------------------------------------

    def latency(self) -> float:
        """Of half a request: mostly short, at times longer than a third of a timeout."""
        slow = self.rng.random() < self.harshness
        return self.rng.uniform(0, 5) if slow else self.rng.choice((0.01, 0.02, 0.05, 0.2))

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        self._late.append((self.now + seconds, act))

    def number_of(self, held: HeldTerm) -> int:
        return held._number  # pyright: ignore[reportPrivateUsage]

    def landed(self, process: Process, name: str, looked_at: float) -> None:
        """`looked_at`: when its sender had sent its last look before the request."""
        number, _, kind = name.partition(".")
        if kind == "":
            self._look_at_the_proof(process, int(number) - 1, looked_at)
            self._timeouts[int(number)] = process.timeout
            self.newest = max(self.newest, int(number))
        if kind != "released":
            self._landings.setdefault(int(number), []).append(self.now)

    def took(self, process: Process, held: HeldTerm) -> None:
        number = self.number_of(held)
        self.figures["took"] += 1
        if number in self._taken:
            self.trouble(f"term {number} was taken twice")
        self._taken.add(number)

    def acts(self, process: Process, held: HeldTerm) -> None:
        """The process does what only a holder may, right after it has asked whether it still is one."""
        self.figures["acted"] += 1
        if self.newest > self.number_of(held) and not process.was_suspended:
            self.trouble(f"process {process.number} acts under term {self.number_of(held)}, beside {self.newest}")

    def look_at_the_newest(self) -> None:
        there = newest_of(MemoryStorage(self.memory, "lease/").list(""))
        if there < self.newest:
            self.trouble(f"term {self.newest} was removed, and {there} is the newest")

    def _look_at_the_proof(self, process: Process, before: int, looked_at: float) -> None:
        """Whoever takes the next term has seen the last one released, or silent for its timeout."""
        released = name_of(Released, before) in MemoryStorage(self.memory, "lease/").list("")
        gone = name_of(Term, before) not in MemoryStorage(self.memory, "lease/").list("")
        if before == 0 or released or gone or process.was_suspended:
            return
        seen = [time for time in self._landings.get(before, []) if time <= looked_at]
        silent = process.clock_at(looked_at) - process.clock_at(max(seen, default=0.0))
        if silent < self._timeouts[before] - 1e-6:
            self.trouble(f"term {before} of {self._timeouts[before]} s was followed after {silent:.2f} s of silence")

    def trouble(self, text: str) -> None:
        self.troubles.append(text)


def _unavailable() -> TidegateError:
    return TidegateError(Code.STORAGE_UNUSABLE, expected="an answer", found="none", where="the world")


if __name__ == "__main__":
    sys.exit(main_of("tests.simulation.lease_world", World))
