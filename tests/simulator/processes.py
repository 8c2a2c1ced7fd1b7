"""Processes, the threads in them, and what a thread can wait for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.world.disk import Content, Disk, Loss
from tests.world.driver import Life, Thread
from tests.world.engine import Do
from tidegate.core.effects import Effect

if TYPE_CHECKING:
    from tests.simulator.driver import Part


@dataclass(frozen=True, slots=True)
class Until:
    """Wait, inside a process, until `ready` holds."""

    point: str
    ready: Callable[[], bool]


ActorSteps: TypeAlias = Generator["Effect | Do | Until", Any, None]


class Process:
    """A driver's Python, its JVM, or an executor. Its threads stand still until `asleep_until`."""

    __slots__ = ("alive", "asleep_until", "dies_at", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.asleep_until = 0
        self.dies_at: int | None = None


class Actor(Thread):
    """A thread of a process. `part` is the query whose effects it asks for now."""

    __slots__ = ("asleep_until", "label", "part", "process")

    def __init__(self, label: str, process: Process, steps: ActorSteps, part: Part | None = None) -> None:
        self.label = label
        self.process = process
        self.part = part
        self.asleep_until = 0
        super().__init__(label, steps)  # pyright: ignore[reportArgumentType]

    @property
    def alive(self) -> bool:
        return self.life is Life.ALIVE

    def end(self) -> None:
        """The thread is gone with its process."""
        self.life = Life.FAILED


class DiskFull(Exception):
    """No space left."""


class FillableDisk(Disk):
    """A disk that can be full: nothing new can be written, deleting and renaming go on."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def put(self, name: str, data: Content) -> None:
        self._check()
        super().put(name, data)

    def write(self, name: str, data: Content) -> None:
        self._check()
        super().write(name, data)

    def rename(self, old: str, new: str) -> None:
        full, self.full = self.full, False
        super().rename(old, new)
        self.full = full

    def lose_power(self, loss: Loss) -> None:
        full, self.full = self.full, False
        super().lose_power(loss)
        self.full = full

    def tear(self, below: str) -> None:
        """Of what was written below a folder and not synced only the names are left."""
        for folder, file in list(self._on_platter):
            if folder.startswith(below) and file in self.names(folder):
                super().put(f"{folder}/{file}", b"")

    def _check(self) -> None:
        if self.full:
            raise DiskFull("no space left on the disk")
