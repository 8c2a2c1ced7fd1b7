"""What the contests of sinks have in common: the rows, two writers in processes of their own, and the driver's part.

No Spark runs. The writers stand for the tasks of an epoch, and this process for the driver. In each round both sides
write the same rows, one after the other; a round before them warms the writers and the server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import get_context
from statistics import median

import numpy as np
import pyarrow as pa

from bench.figures import Better, Figure
from bench.footprint import cpu_seconds_of_sessions
from tidegate.core.records import Attempt, Committable, Outcome, SinkIdentity
from tidegate.sinks.base import SinkPlan, TwoPhaseSink

WRITERS = 2
BATCH = 50_000
QUICK_SHARE = 10
"""`--quick` writes a tenth of the rows."""

IDENTITY = SinkIdentity(job="bench", job_id="0badcafe", generation=1, query="measured", sink="table")
RUN, RUN_TOKEN = 1, "bench"


# --- rows, in the processes of the writers ------------------------------------------------------------------


def batches_of(writer: int, rows: int) -> Generator[pa.RecordBatch]:
    """The rows of a writer: numbers, a text and a time, as an order may have them. `f` is unique over all writers."""
    random = np.random.default_rng(writer)
    for first in range(writer * rows, (writer + 1) * rows, BATCH):
        numbers = np.arange(first, min(first + BATCH, (writer + 1) * rows))
        count = len(numbers)
        yield pa.RecordBatch.from_pydict(
            {
                "a": pa.array(random.integers(0, 1_000_000, count), pa.int32()),
                "b": pa.array(random.random(count)),
                "c": pa.array([f"customer-{number % 50_000:06}" for number in numbers.tolist()]),
                "d": pa.array(numbers * 1_000, pa.timestamp("us", tz="UTC")),
                "e": pa.array(random.integers(0, 2, count).astype(bool)),
                "f": pa.array(numbers),
            }
        )


SCHEMA = next(iter(batches_of(0, 1))).schema


@cache
def made(writer: int, rows: int) -> tuple[pa.RecordBatch, ...]:
    """The rows of `batches_of`, which a process makes once, before it is measured."""
    return tuple(batches_of(writer, rows))


def make_rows(rows: int) -> None:
    """In a new process: the rows of each writer, because any process may take any of them."""
    for writer in range(WRITERS):
        made(writer, rows)


@contextmanager
def writers_of(rows: int) -> Generator[ProcessPoolExecutor]:
    """Processes that have the rows of each writer."""
    with ProcessPoolExecutor(WRITERS, get_context("spawn"), make_rows, (rows,)) as pool:
        yield pool


def in_each(writers: ProcessPoolExecutor, work: Callable[..., object], *settings: object) -> list[object]:
    """What `work(*settings, writer)` gives in each writer, all at once."""
    return list(writers.map(partial(work, *settings), range(WRITERS)))


def attempt_of(epoch: int, writer: int) -> Attempt:
    return Attempt(sink=IDENTITY, run=RUN, run_token=RUN_TOKEN, epoch=epoch, task=writer, task_attempt=writer)


def staged(sink: TwoPhaseSink, epoch: int, rows: int, writer: int) -> Committable:
    """The transaction of a task, up to its pre-commit. Its rows are there before, as those of a task are."""
    transaction = sink.begin(attempt_of(epoch, writer))
    for batch in made(writer, rows):
        transaction.write(batch)
    committable = transaction.pre_commit()
    if committable is None:
        raise RuntimeError("an epoch without rows")
    return committable


# --- the driver's part ---------------------------------------------------------------------------------------


def plan_of(mode: str = "append") -> SinkPlan:
    return SinkPlan(identity=IDENTITY, schema=SCHEMA, mode=mode, local_master=True, read_journal=lambda _: ())


def committed(sink: TwoPhaseSink, committables: Sequence[Committable]) -> None:
    """The driver's commit of an epoch."""
    for answer in sink.commit(committables):
        if answer.outcome is not Outcome.COMMITTED:
            raise RuntimeError(str(answer))


def epoch_of(sink: TwoPhaseSink, writers: ProcessPoolExecutor, number: int, rows: int) -> dict[str, float]:
    """Run an epoch of `rows` rows. Seconds of its two halves."""
    return epoch_by(partial(staged, sink, number, rows // WRITERS), sink, writers)


def epoch_by(task: Callable[[int], Committable], sink: TwoPhaseSink, writers: ProcessPoolExecutor) -> dict[str, float]:
    """Run an epoch whose tasks are `task(writer)`. Seconds of its two halves."""
    begun = time.perf_counter()
    committables = list(writers.map(task, range(WRITERS)))
    wrote = time.perf_counter()
    committed(sink, committables)
    return {"of the tasks": wrote - begun, "of the commit": time.perf_counter() - wrote}


# --- figures -------------------------------------------------------------------------------------------------

Side = Callable[[int], "Mapping[str, float] | None"]
"""One side of a contest. Gets the number of the round; may give seconds of its parts."""


def samples_of(
    sides: Mapping[str, Side], rounds: int, server: int | None, before: Callable[[int], None]
) -> dict[str, list[float]]:
    """Seconds and CPU seconds of each side, one sample a round.

    `server`: the session of the server, if there is one. Its processes count beside those of this session. `before`:
    called before each side with the number of the round, unmeasured. Round 0 is not kept.
    """
    servers = [] if server is None else [server]
    cpu_seconds = partial(cpu_seconds_of_sessions, {os.getsid(0), *servers}, of_children=servers)
    samples: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for side, run in sides.items():
            before(number)
            cpu, begun = cpu_seconds(), time.perf_counter()
            parts = run(number)
            found = {"s": time.perf_counter() - begun, "CPU s": cpu_seconds() - cpu}
            found |= {f"s {part}": seconds for part, seconds in (parts or {}).items()}
            for what, value in found.items() if number else ():
                samples.setdefault(f"{side} {what}", []).append(round(value, 3))
    return samples


def speed(name: str, what: str, samples: dict[str, list[float]], goal: float | None) -> Figure:
    """The speed of the sink as a part of the baseline's: the baseline's median time by the sink's."""
    return Figure(
        name=name,
        what=what,
        value=round(median(samples["baseline s"]) / median(samples["tidegate s"]), 2),
        unit="x",
        better=Better.HIGHER,
        goal=goal,
        samples=samples,
    )
