"""The work of the Kafka benchmarks through PyFlink and through tidegate, both exactly-once.

Each run is a process that begins cold and ends when it has caught up. The broker is asked every 20 ms how far a reader
of committed records can read: the time runs from the start of the process until that changed last. What the same job
takes for 2,000 events is its start-up: the figures, tidegate's time divided by PyFlink's, are without it. A quick run
has so few events that they are lost in what a start-up varies by: its figures are with the start, and without a goal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench import flink
from bench.figures import Better, Figure
from bench.kafka_cluster import PARTITIONS, events_topic, fast_broker, sum_of_amounts
from tidegate.testing.kafka.topics import make_topic, messages

_EVENTS = 2_000_000
_QUICK_EVENTS = 100_000
_FEW_EVENTS = 2_000
WITHOUT_START = "s"
WITH_START = "s with its start"
_LOOK_SECONDS = 0.02
_ANSWER_SECONDS = 10.0
_BOUND_SECONDS = 600.0
_SHOWN_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class Case:
    """What is done with the events, by the name it has in the programs."""

    work: str
    what: str


@dataclass(frozen=True, slots=True)
class Contest:
    """How the two compute the new column; `suffix` makes the figure's name."""

    suffix: str
    flink: str
    tidegate: str
    what: str
    goal: float | None


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds from the start of a process until the last row could be read: with few events, and with all."""

    start: float
    whole: float


CASES: Mapping[str, Case] = {
    "kafka-flink-map": Case("map", "each event parsed, changed and written"),
    "kafka-flink-count": Case("count", "count and sum by 10,000 keys"),
}
CONTESTS: Sequence[Contest] = (
    Contest("", "sql", "sql", "baseline: PyFlink SQL", 0.85),
    Contest("-python", "python", "python", "a Python function in it (tidegate: Arrow); baseline: PyFlink's", 0.25),
    Contest("-pandas", "pandas", "python", "a Python function in it; baseline: PyFlink's over Arrow (pandas)", None),
)


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """The figures of one case. In a round PyFlink and tidegate take turns; what two contests share is run once."""
    case, many = CASES[name], _QUICK_EVENTS if quick else _EVENTS
    ways = dict.fromkeys(way for each in CONTESTS for way in (("baseline", each.flink), ("tidegate", each.tidegate)))
    runs: dict[tuple[str, str], list[Run]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, fast_broker(Path(folder)) as broker:
        course = _Course(Path(folder), broker.servers, case.work)
        sources = {count: events_topic(broker.servers, count) for count in (_FEW_EVENTS, many)}
        for _ in range(rounds):
            for side, way in ways:
                start, whole = (course.run(side, way, source, count) for count, source in sources.items())
                runs[side, way].append(Run(start, whole))
    what = f"time of {many:,} events from topic to topic, {case.what}, exactly-once"
    return [
        figure_of(
            f"{name}{each.suffix}",
            f"{what}; {each.what}",
            runs["baseline", each.flink],
            runs["tidegate", each.tidegate],
            goal=None if quick else each.goal,
            quantity=WITH_START if quick else WITHOUT_START,
        )
        for each in CONTESTS
    ]


def figure_of(
    name: str, what: str, baseline: Sequence[Run], tidegate: Sequence[Run], *, goal: float | None, quantity: str
) -> Figure:
    """Tidegate's median divided by the baseline's. Raises ValueError where the start-up took longer than all of it."""
    samples: dict[str, list[float]] = {}
    for side, runs in (("baseline", baseline), ("tidegate", tidegate)):
        samples[f"{side} {WITHOUT_START}"] = [round(run.whole - run.start, 3) for run in runs]
        samples[f"{side} {WITH_START}"] = [round(run.whole, 3) for run in runs]
    ours, theirs = (median(samples[f"{side} {quantity}"]) for side in ("tidegate", "baseline"))
    if min(ours, theirs) <= 0:
        raise ValueError(f"{name}: the starts alone took longer; measure where nothing else runs: {samples}")
    return Figure(
        name=name,
        what=what,
        value=round(ours / theirs, 2),
        unit="x",
        better=Better.LOWER,
        goal=goal,
        samples=samples,
    )


@dataclass(slots=True)
class _Course:
    """Where the programs run."""

    folder: Path
    servers: str
    work: str
    runs: int = 0

    def run(self, side: str, way: str, source: str, events: int) -> float:
        """Seconds from the start of the program until the last row could be read. Raises RuntimeError where the
        program fails or takes too long, ValueError where it has not written every event once."""
        self.runs += 1
        out, place = make_topic(self.servers, PARTITIONS, name="out"), self.folder / str(self.runs)
        place.mkdir()
        last = {"baseline": str(flink.connector_jar()), "tidegate": str(place / "checkpoints")}[side]
        command = [*_program(side), self.work, way, self.servers, source, out, last]
        seconds = _watched(command, place / "log", self.servers, out)
        found, wanted = _written(self.work, self.servers, out), (events, 2 * sum_of_amounts(events))
        if found != wanted:
            raise ValueError(f"{side} ({self.work}, {way}) wrote {found}, not {wanted}: events, and the sum of them")
        return seconds


def _program(side: str) -> list[str]:
    if side == "tidegate":
        return [sys.executable, "-m", "bench.tidegate_program"]
    return [str(flink.python()), str(Path(__file__).with_name("flink_program.py"))]


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


def _watched(command: Sequence[str], log: Path, servers: str, out: str) -> float:
    """Run to the end, and say after how many seconds the last committed row could be read."""
    watch = Consumer({"bootstrap.servers": servers, "group.id": "watch", "isolation.level": "read_committed"})
    seen, changed = [0] * PARTITIONS, 0.0
    begun = time.monotonic()
    with log.open("wb") as printed:
        program = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        running = True
        while running and time.monotonic() < begun + _BOUND_SECONDS:
            running = program.poll() is None
            looked = time.monotonic()
            if (now := _ends(watch, out)) != seen:
                seen, changed = now, looked - begun
            time.sleep(_LOOK_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)  # with its JVM and its workers, where it has not ended
        ended = program.wait()
        watch.close()
    if ended != 0:
        tail = log.read_text(encoding="utf-8", errors="replace")[-_SHOWN_CHARACTERS:]
        raise RuntimeError(f"{' '.join(command)} ended with {ended}\n{tail}")
    return changed


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
