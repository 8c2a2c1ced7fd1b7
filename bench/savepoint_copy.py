"""How fast a native savepoint is taken and restored, against `cp -r` and `sync` of the very files that are in it.

All three read files that were just read, so that they come from the page cache, and end with everything on the disk;
before each the disk has nothing left to write, and the machine has its memory. The job stands still. A restore's time
is that of its files, from the first one until the new generation's ledger is begun, when all of them are compared and
synced: by the files' own times.
How long the whole start takes, with Spark's count of the state, stands beside it.

Memory is how much the driver's Python grew at its peak, once with a tenth of the keys and once with all of them.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from bench.figures import Better, Figure
from bench.growth import peak_growth
from bench.machine import touch_memory
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
from tidegate.savepoints.folder import open_savepoint

_GOAL_SPEED = 0.8
_GOAL_MIB = 16.0
_STATE_MB = 1000.0


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of each, and how much memory Python took for the two that are tidegate's, in MiB."""

    copied: float
    taken: float
    restored: float
    started: float
    taking: float
    restoring: float


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """A round before the others warms the JVM; those with a tenth of the keys are for memory alone."""
    keys = QUICK_KEYS if quick else KEYS
    with shared_session() as session, tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        few = _rounds(session, small, keys // 10, 2)[-1]
        every = _rounds(session, large, keys, rounds + 1)[1:]
        saved = open_savepoint(take_ended(session, large))
        size_bytes = saved.size_bytes
        rows = session.read.format("statestore").load(str(saved.folder / "queries" / QUERY / "spark")).count()
    return [
        _speed("take", "taking a native savepoint", [each.taken for each in every], every),
        _speed("restore", "restoring the files of one, each compared,", [each.restored for each in every], every),
        Figure(
            name="savepoint-start",
            what="a start from a savepoint, from the call until its first epoch is done: the files, Spark's "
            "count of the state, the epoch",
            value=round(median(each.started for each in every), 2),
            unit="s",
            better=Better.LOWER,
            goal=None,
            samples={"tidegate s": [round(each.started, 2) for each in every]},
        ),
        Figure(
            name="savepoint-size",
            what="what was copied: Spark's files",
            value=round(size_bytes / 1e6, 1),
            unit="MB",
            better=Better.HIGHER,
            goal=None if quick else _STATE_MB,
        ),
        Figure(
            name="savepoint-keys",
            what="keys in it, by Spark's reader of state",
            value=float(rows),
            unit="keys",
            better=Better.HIGHER,
            goal=None if quick else float(KEYS),
        ),
        memory_figure("taking", "taking a savepoint", few.taking, median(each.taking for each in every)),
        memory_figure("restoring", "a start from one", few.restoring, median(each.restoring for each in every)),
    ]


def seconds_of_files(generation: Path) -> float:
    """How long the files of a restored generation took: from the first one to the first record of its ledger, which
    is put when all of them are durable."""
    files = [path.stat().st_mtime for path in (generation / "spark").rglob("*") if path.is_file()]
    return min(path.stat().st_mtime for path in (generation / "ledger" / "runs").iterdir()) - min(files)


def _rounds(session: SparkSession, place: Path, keys: int, number: int) -> list[Round]:
    fill(session, place, keys)
    return [_round(session, place, keys, f"restored-{each}") for each in range(number)]


def _round(session: SparkSession, place: Path, keys: int, name: str) -> Round:
    """Of a name of its own: for a minute Spark still writes snapshots of state for a query that has ended."""
    _make_ready(place, keys, place / "checkpoints" / JOB)
    begun = time.perf_counter()
    saved, taking = peak_growth(lambda: take_ended(session, place))
    taken = time.perf_counter() - begun

    _make_ready(place, keys, saved)
    begun = time.perf_counter()
    _copy(saved, place / "copy")
    copied = time.perf_counter() - begun

    restored = place / "checkpoints" / name
    _make_ready(place, keys, saved)
    begun = time.perf_counter()
    _, restoring = peak_growth(lambda: start_from(session, place, keys, saved, name))
    started = time.perf_counter() - begun
    files = seconds_of_files(restored / "queries" / QUERY / "g1")

    remove(saved, place / "copy")
    remove_job(place, name)
    return Round(copied, taken, files, started, taking, restoring)


def _make_ready(place: Path, keys: int, source: Path) -> None:
    read_whole(source)
    settle(place)
    if keys >= KEYS:  # with fewer, no time counts
        touch_memory()


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    subprocess.run(["sync", "-f", str(target)], check=True)


def _speed(name: str, what: str, seconds: list[float], rounds: list[Round]) -> Figure:
    plain = [each.copied for each in rounds]
    return Figure(
        name=f"savepoint-{name}",
        what=f"speed of {what} against `cp -r` and `sync` of the same files (baseline), all from the page cache",
        value=round(median(plain) / median(seconds), 2),
        unit="x",
        better=Better.HIGHER,
        goal=_GOAL_SPEED,
        samples={
            "baseline s": [round(each, 3) for each in plain],
            "tidegate s": [round(each, 3) for each in seconds],
        },
    )


def memory_figure(name: str, what: str, few: float, every: float) -> Figure:
    return Figure(
        name=f"savepoint-memory-{name}",
        what=f"memory that Python takes for {what}, more with all keys than with a tenth of them",
        value=round(every - few, 1),
        unit="MiB",
        better=Better.LOWER,
        goal=_GOAL_MIB,
        samples={"early MiB": [round(few, 1)], "late MiB": [round(every, 1)]},
    )
