"""Threads that take turns: one of them runs, and at each of its steps another one may run instead."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from typing import Final, Protocol

_STALLS: Final = 0.01
_LINGERS: Final = (0.0, 0.02, 0.1)
_STALLED_SECONDS: Final = 3.0
_TURN_SECONDS: Final = 0.01


class Killed(BaseException):
    """The thread is gone with its driver."""


class Life(Protocol):
    """What a thread belongs to: it runs only while this does. `sleeps_until`: all of it is paused until then."""

    is_dead: bool
    sleeps_until: float


class Task:
    """One thread."""

    def __init__(self, turns: Turns, life: Life, act: Callable[[], object]) -> None:
        self._turns, self._act = turns, act
        self.life = life
        self.is_over = False
        self.error: BaseException | None = None
        self._budget = 0
        self._ready: Callable[[], bool] | None = None
        self._wakes_at = 0.0
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        threading.Thread(target=self._run, daemon=True).start()

    def may_run(self, now: float) -> bool:
        if self.is_over or (now < self.life.sleeps_until and not self.life.is_dead):
            return False
        return self.life.is_dead or now >= self._wakes_at or (self._ready is not None and self._ready())

    def wakes_at(self) -> float:
        return math.inf if self.is_over else max(self._wakes_at, self.life.sleeps_until)

    def go_on(self, steps: int) -> None:
        """Let it run until it has made so many steps, waits, or has ended."""
        self._budget = steps
        self._go.release()
        self._back.acquire()

    def step(self) -> None:
        """Another thread may get its turn here."""
        self._budget -= 1
        if self._budget < 0 or self.life.is_dead:
            self.wait(None, self._turns.stall())

    def wait(self, ready: Callable[[], bool] | None, seconds: float) -> None:
        """Wait until `ready` is true, at most so long."""
        if self.life.is_dead:
            raise Killed
        self._ready, self._wakes_at = ready, self._turns.now + seconds
        self._back.release()
        self._go.acquire()
        if self.life.is_dead:
            raise Killed

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._act()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 (told by the world)
            self.error = error
        self.is_over = True
        self._back.release()


class Turns:
    """Gives the turns, in an order that is drawn."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self._lingers = rng.choice(_LINGERS)

    def spawn(self, life: Life, act: Callable[[], object]) -> Task:
        task = Task(self, life, act)
        self.tasks.append(task)
        return task

    def step(self) -> None:
        if self.current is not None:
            self.current.step()

    def wait(self, ready: Callable[[], bool] | None = None, seconds: float = math.inf) -> None:
        if self.current is None:
            raise RuntimeError("only a task can wait")
        self.current.wait(ready, seconds)

    def stall(self, often: float = _STALLS) -> float:
        """How long a thread stands still, in seconds."""
        return self.rng.uniform(0, _STALLED_SECONDS) if self.rng.random() < often else 0.0

    def linger(self) -> None:
        """A step at a place that decides: in some seeds the thread stands still more often here."""
        if self.current is not None:
            self.current.wait(None, self.stall(self._lingers))

    def give(self) -> bool:
        """Let one thread run for some steps. False if no thread will ever run again."""
        self.now += _TURN_SECONDS
        able = [task for task in self.tasks if task.may_run(self.now)]
        if not able:
            self.tasks = [task for task in self.tasks if not task.is_over or task.error is not None]
            wakes_at = min((task.wakes_at() for task in self.tasks), default=math.inf)
            self.now = max(self.now, wakes_at) if wakes_at < math.inf else self.now
            return wakes_at < math.inf
        self.current = self.rng.choice(able)
        self.current.go_on(int(2 ** self.rng.uniform(0, 6)))
        self.current = None
        return True


class TurnLock:
    """A `threading.Lock` of these threads."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._owner: Task | None = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        if self._owner is self._turns.current:
            self.release()

    def acquire(self, timeout: float = math.inf) -> bool:
        self._turns.linger()
        if self._owner is not None:
            self._turns.wait(lambda: self._owner is None, timeout)
        if self._owner is not None:
            return False
        self._owner = self._turns.current
        return True

    def release(self) -> None:
        self._owner = None


class TurnCondition(TurnLock):
    """A `threading.Condition` of these threads. A thread that holds it may take it again."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        self._notified = self._depth = 0

    def acquire(self, timeout: float = math.inf) -> bool:
        if self._owner is None or self._owner is not self._turns.current:
            if not super().acquire(timeout):
                return False
            self._depth = 0
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            super().release()

    def wait(self, timeout: float) -> None:
        before, depth = self._notified, self._depth
        self._owner = None
        self._turns.wait(lambda: self._notified != before, timeout)
        super().acquire()
        self._depth = depth

    def notify_all(self) -> None:
        self._notified += 1
