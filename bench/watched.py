"""A program that reads one topic and writes another, run from a cold start to its end and watched from outside.

The broker is asked every 20 ms how far a reader of committed records can read: the time runs from the start of the
process until that changed last. The program leads a session of its own, whose processes are sampled. When it has ended,
its output is read and compared with the events.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.footprint import footprint_of
from bench.kafka_cluster import PARTITIONS, events_topic, sum_of_amounts
from tidegate.machine.class_archive import environment_to_make
from tidegate.supervise.session_processes import end_processes
from tidegate.testing.kafka.topics import make_topic, messages

_LOOK_SECONDS = 0.02
_ANSWER_SECONDS = 10.0
_BOUND_SECONDS = 600.0
_SHOWN_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class Task:
    """What a program is asked for. `work`: `map` or `count`; `folder`: an empty one for what it keeps."""

    work: str
    servers: str
    source: str
    out: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Entrant:
    """One program in one way of use. `title` names it in a sentence; `command` is its command line for a task."""

    title: str
    command: Callable[[Task], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds from the start until the last row could be read, and what all processes used."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


@dataclass(slots=True)
class Course:
    """Where the programs run, one after the other: a broker, and a topic for each number of events."""

    folder: Path
    servers: str
    sources: dict[int, str]
    runs: int = 0

    @classmethod
    def with_events(cls, folder: Path, servers: str, *counts: int) -> Course:
        return cls(folder, servers, {count: events_topic(servers, count) for count in counts})

    def run(self, entrant: Entrant, work: str, events: int) -> Outcome:
        """Run it once. Raises RuntimeError if the program fails or takes too long, ValueError if it has not written
        every event once."""
        self.runs += 1
        place = self.folder / str(self.runs)
        (place / "kept").mkdir(parents=True)
        out = make_topic(self.servers, PARTITIONS, name="out")
        task = Task(work, self.servers, self.sources[events], out, place / "kept")
        outcome = _watched(entrant.command(task), place / "log", self.servers, out)
        found, wanted = _written(work, self.servers, out), (events, 2 * sum_of_amounts(events))
        if found != wanted:
            raise ValueError(f"{entrant.title} ({work}) wrote {found}, not {wanted}: events, and the sum of them")
        return outcome


def _watched(command: Sequence[str], log: Path, servers: str, out: str) -> Outcome:
    watch = Consumer({"bootstrap.servers": servers, "group.id": "watch", "isolation.level": "read_committed"})
    seen, changed = [0] * PARTITIONS, 0.0
    begun = time.monotonic()
    with log.open("wb") as printed:
        program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment_to_make(os.environ),  # tidegate would refuse a variable of this suite as an unknown setting
        )
    try:
        with footprint_of(program.pid) as footprint:
            running = True
            while running and time.monotonic() < begun + _BOUND_SECONDS:
                running = program.poll() is None
                looked = time.monotonic()
                if (now := _ends(watch, out)) != seen:
                    seen, changed = now, looked - begun
                time.sleep(_LOOK_SECONDS)
    finally:
        end_processes(program.pid, 0.0)  # with its JVM and its workers, where they have not ended
        ended = program.wait()
        watch.close()
    if ended != 0:
        tail = log.read_text(encoding="utf-8", errors="replace")[-_SHOWN_CHARACTERS:]
        raise RuntimeError(f"{' '.join(command)} ended with {ended}\n{tail}")
    return Outcome(round(changed, 3), round(footprint.cpu_seconds, 2), round(footprint.peak_mib, 1))


def _ends(watch: Consumer, topic: str) -> list[int]:
    """How far a reader of committed records can read in each partition."""
    end = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            return [watch.get_watermark_offsets(each, _ANSWER_SECONDS, cached=False)[1] for each in _partitions(topic)]
        except KafkaException:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK_SECONDS)  # a broker that has just made the topic says that another one leads it


def _partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def _written(work: str, servers: str, out: str) -> tuple[int, int]:
    """Of how many events the committed rows tell, and the sum of their new column. Of a key the last row counts."""
    rows = messages(servers, out)
    if work == "map":
        twice = [msgspec.json.decode(row.value() or b"", type=_Mapped).twice for row in rows]
        return len(twice), sum(twice)
    last = {row.key(): row.value() or b"" for row in rows}
    counted = [msgspec.json.decode(value, type=_Counted) for value in last.values()]
    return sum(each.count for each in counted), sum(each.sum for each in counted)


class _Mapped(msgspec.Struct):
    twice: int


class _Counted(msgspec.Struct):
    count: int
    sum: int
