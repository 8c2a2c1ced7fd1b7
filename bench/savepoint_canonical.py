"""How fast state is written into a canonical savepoint, and a job starts from one: rows, and bytes of keys and values.

The bytes are those of the columns as they are in memory, not those of Spark's files or of Parquet, which are smaller.
Both times end with everything on the disk. The job stands still, and Spark reads files that were just read. A restore
is the whole start until its first epoch is done: the state is read from Parquet, divided, written in Spark's own form
and counted there. What bounds it is told by how much of the cores' time the JVM has taken, and where the seconds went
by when the last file of state and the first entry of the new run were written. Memory is how much the driver's Python
grew at its peak, once with a tenth of the keys and once with all of them.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

import tidegate
from bench.figures import Better, Figure
from bench.growth import cpu_seconds, peak_growth
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
from tidegate.savepoints.folder import open_savepoint

_GOAL_MB = 100.0
_RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of each, of a start until its state was written, until it was counted as well, and of CPU; how much
    memory Python took for them, in MiB; and what was in the savepoint."""

    taken: float
    started: float
    written: float
    counted: float
    cpu: float
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
    goal, until = None if quick else _GOAL_MB, "read from one until its first epoch is done"
    return [
        *_speeds("take", "written into a canonical savepoint", every[0], {"s": [each.taken for each in every]}, goal),
        *_speeds("restore", until, every[0], _seconds_of_starts(every), goal),
        _busy(every),
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
    jvm, begun_at = _jvm(session), time.time()
    begun, cpu = time.perf_counter(), cpu_seconds(jvm)
    _, restoring = peak_growth(lambda: start_from(session, place, keys, saved, _RESTORED))
    started, cpu = time.perf_counter() - begun, cpu_seconds(jvm) - cpu
    written, counted = (at - begun_at for at in _stages(saved, place / "checkpoints" / _RESTORED))

    remove(saved)
    remove_job(place, _RESTORED)
    return Round(taken, started, written, counted, cpu, taking, restoring, rows, row_bytes)


def _jvm(session: SparkSession) -> int:
    jvm: Any = session.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _stages(saved: Path, restored: Path) -> tuple[float, float]:
    """When the state of a restored job was written, and when its query began, as it does when the state is counted."""
    done = open_savepoint(saved).record.queries[0].done.epoch
    checkpoint = restored / "queries" / QUERY / "g1" / "spark"
    written = max(path.stat().st_mtime for path in (checkpoint / "state").rglob(f"{done + 1}_*.zip"))
    return written, (checkpoint / "offsets" / str(done + 1)).stat().st_mtime


def _content(saved: Path) -> tuple[int, int]:
    """Rows, and the bytes of their keys and values."""
    rows = bytes_of_all = 0
    for batch in tidegate.read_savepoint(saved).state_arrow(QUERY).to_batches(columns=["key", "value"]):
        rows += batch.num_rows
        bytes_of_all += batch.nbytes
    return rows, bytes_of_all


def _seconds_of_starts(every: list[Round]) -> dict[str, list[float]]:
    return {
        "s": [each.started for each in every],
        "s until the state is written": [each.written for each in every],
        "s until it is counted": [each.counted for each in every],
        "s of CPU": [each.cpu for each in every],
    }


def _busy(every: list[Round]) -> Figure:
    cores = os.cpu_count() or 1
    return Figure(
        name="savepoint-canonical-restore-cores",
        what="of the cores' time the JVM has taken so much for that start: near 100 they are what bounds it",
        value=round(median(each.cpu / each.started for each in every) / cores * 100, 1),
        unit="%",
        better=Better.HIGHER,
        goal=None,
    )


def _speeds(name: str, what: str, content: Round, seconds: dict[str, list[float]], goal: float | None) -> list[Figure]:
    took = median(seconds["s"])
    return [
        Figure(
            name=f"savepoint-canonical-{name}",
            what=f"uncompressed bytes of keys and values {what}",
            value=round(content.row_bytes / 1e6 / took, 1),
            unit="MB/s",
            better=Better.HIGHER,
            goal=goal,
            samples={f"tidegate {of}": [round(each, 2) for each in times] for of, times in seconds.items()},
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
