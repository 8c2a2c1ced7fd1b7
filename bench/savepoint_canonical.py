"""How fast state is written into a canonical savepoint, and a job goes on from one: rows, and bytes of keys and values.

The bytes are those of the columns as they are in memory, not those of Spark's files or of Parquet, which are smaller.
Both times end with everything on the disk. The job stands still, and Spark reads files that were just read. A restore
is the whole start until its first epoch is done: the state is read from Parquet, divided, written in Spark's own form
and counted there. Memory is how much the driver's Python grew at its peak, once with a tenth of the keys and once with
all of them.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

import tidegate
from bench.figures import Better, Figure
from bench.growth import peak_growth
from bench.savepoint_copy import memory_figure
from bench.savepoint_job import (
    JOB,
    KEYS,
    QUERY,
    QUICK_KEYS,
    fill,
    read_whole,
    remove,
    remove_job,
    settle,
    start_from,
    take_ended,
)
from bench.session import shared_session
from tidegate.core.records import SavepointFormat

_GOAL_MB = 100.0
_RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of each, how much memory Python took for them, in MiB, and what was in the savepoint."""

    taken: float
    started: float
    taking: float
    restoring: float
    rows: int
    row_bytes: int


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """A round before the others warms the JVM; those with a tenth of the keys are for memory alone."""
    keys = QUICK_KEYS if quick else KEYS
    with shared_session() as session, tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        few = _rounds(session, Path(folder) / "small", keys // 10, 2)[-1]
        every = _rounds(session, Path(folder) / "large", keys, rounds + 1)[1:]
    taken, started = [each.taken for each in every], [each.started for each in every]
    return [
        *_speeds("take", "written into a canonical savepoint", every[0], taken, None if quick else _GOAL_MB),
        *_speeds("restore", "read from one until its first epoch is done", every[0], started, None),
        memory_figure("taking-canonical", "taking one", few.taking, median(each.taking for each in every)),
        memory_figure("restoring-canonical", "a start from one", few.restoring, median(e.restoring for e in every)),
    ]


def _rounds(session: SparkSession, place: Path, keys: int, number: int) -> list[Round]:
    fill(session, place, keys)
    return [_round(session, place, keys) for _ in range(number)]


def _round(session: SparkSession, place: Path, keys: int) -> Round:
    read_whole(place / "checkpoints" / JOB)
    settle(place)
    begun = time.perf_counter()
    saved, taking = peak_growth(lambda: take_ended(session, place, SavepointFormat.CANONICAL))
    taken = time.perf_counter() - begun

    rows, row_bytes = _content(saved)
    read_whole(saved)
    settle(place)
    begun = time.perf_counter()
    _, restoring = peak_growth(lambda: start_from(session, place, keys, saved, _RESTORED))
    started = time.perf_counter() - begun

    remove(saved)
    remove_job(place, _RESTORED)
    return Round(taken, started, taking, restoring, rows, row_bytes)


def _content(saved: Path) -> tuple[int, int]:
    """Rows, and the bytes of their keys and values."""
    rows = bytes_of_all = 0
    for batch in tidegate.read_savepoint(saved).state_arrow(QUERY).to_batches(columns=["key", "value"]):
        rows += batch.num_rows
        bytes_of_all += batch.nbytes
    return rows, bytes_of_all


def _speeds(name: str, what: str, content: Round, seconds: list[float], goal: float | None) -> list[Figure]:
    took = median(seconds)
    return [
        Figure(
            name=f"savepoint-canonical-{name}",
            what=f"uncompressed bytes of keys and values {what}",
            value=round(content.row_bytes / 1e6 / took, 1),
            unit="MB/s",
            better=Better.HIGHER,
            goal=goal,
            samples={"tidegate s": [round(each, 2) for each in seconds]},
        ),
        Figure(
            name=f"savepoint-canonical-{name}-rows",
            what=f"rows of state {what}",
            value=round(content.rows / took),
            unit="rows/s",
            better=Better.HIGHER,
            goal=None,
        ),
    ]
