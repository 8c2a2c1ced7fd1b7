"""CPU time and memory of a run: all processes of its session, from /proc, every 100 ms.

A process counts with the CPU time that was seen last, so up to 100 ms of each process are missed at its end. Memory is
the sum of the resident sizes at one moment. A page that several processes share counts in each of them.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from bench.repeated import repeated

SAMPLE_SECONDS = 0.1
_PARENT, _SESSION, _USER, _SYSTEM, _BEGUN, _RESIDENT = 1, 3, 11, 12, 19, 21
"""Positions in `/proc/N/stat` after the name in brackets (proc(5))."""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGES_PER_MIB = 2**20 // mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Sample:
    """One process at one moment. `begun`: ticks since the system's boot; with its number it names one process."""

    session: int
    begun: int
    ticks: int
    pages: int

    @classmethod
    def of(cls, stat: bytes) -> Sample:
        """From the text of `/proc/N/stat`. The name in brackets may hold anything, brackets and spaces too."""
        fields = stat.rpartition(b")")[2].split()
        return cls(
            session=int(fields[_SESSION]),
            begun=int(fields[_BEGUN]),
            ticks=int(fields[_USER]) + int(fields[_SYSTEM]),
            pages=int(fields[_RESIDENT]),
        )


_Seen: TypeAlias = Mapping[int, Sample]


@dataclass(slots=True)
class Footprint:
    """What the processes of a run have used up to the newest sample."""

    peak_pages: int = 0
    ticks: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    def add(self, living: _Seen) -> None:
        """The processes that live at one moment, by number."""
        for number, sample in living.items():
            self.ticks[number, sample.begun] = sample.ticks
        self.peak_pages = max(self.peak_pages, sum(sample.pages for sample in living.values()))

    @property
    def cpu_seconds(self) -> float:
        """User and system time of all processes that were seen."""
        return sum(self.ticks.values()) / _TICKS_PER_SECOND

    @property
    def peak_mib(self) -> float:
        return self.peak_pages / _PAGES_PER_MIB


@contextmanager
def footprint_of(session: int) -> Generator[Footprint]:
    """Sample the processes of a session for the time of a `with`. Read it when the `with` is over."""
    footprint, others = Footprint(), set[int]()
    with repeated(lambda: footprint.add(living_of(session, others)), SAMPLE_SECONDS):
        yield footprint


def living_of(session: int, others: set[int]) -> dict[int, Sample]:
    """The processes of a session. `others` keeps the processes of other sessions, which are read only once."""
    numbers = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    others &= numbers
    living: dict[int, Sample] = {}
    for number in numbers - others:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            sample = Sample.of(Path(f"/proc/{number}/stat").read_bytes())
            if sample.session == session:
                living[number] = sample
            else:
                others.add(number)
    return living


def cpu_seconds_of_session() -> float:
    """Of all processes of this one's session, and of those that they have waited for."""
    return cpu_seconds_of_sessions({os.getsid(0)})


def cpu_seconds_of_sessions(sessions: Collection[int], *, of_children: Collection[int] = ()) -> float:
    """The same of these sessions. `of_children`: processes whose children count, too: PostgreSQL gives each backend a
    session of its own.
    """
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[_SESSION]) in sessions or int(fields[_PARENT]) in of_children:
            ticks += sum(int(field) for field in fields[_USER : _USER + 4])
    return ticks / _TICKS_PER_SECOND
