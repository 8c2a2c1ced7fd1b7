"""A checkpoint of a job while one input of a union is a million rows behind: what each alignment does.

Four queries. `other` and `rows` read from outside, and write a channel each. `late` reads the channel of `rows` at
200,000 rows a second, and writes a third channel. `union` counts what comes from `other` and from `late`:

    other  ---------------------->  union
    rows  ------>  late  -------->

`late` is in an epoch that waits for a file; a million rows are behind it. Then a checkpoint begins. Two seconds later
the file is there, so the epoch ends. `other` has a thousand rows in each epoch all the time, two epochs a second.

A fifth query, `starter`, joins in last: a job takes no checkpoint before each of its queries has a done epoch.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.barrier_cost import NEVER_SECONDS, checkpoints_apart
from bench.epochs import SOURCE
from bench.figures import Better, Figure
from bench.hops import Step, done, seconds_until_shown
from bench.report import BY_ALIGNMENT
from bench.session import own_session
from tidegate import FileSink, FileSource, Job, JobEvent, JobHandle, SparkSource, SQLiteSink, happenings
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.barriers import Alignment
from tidegate.core.channel_parts import position_in
from tidegate.core.records import CheckpointRecord
from tidegate.core.spark_log import positions_of
from tidegate.operate.checkpoints_history import read_checkpoints
from tidegate.storages.schemes import Folder

OTHER, LATE, UNION = "other", "late", "union"
ROWS, _QUICK_ROWS = 1_000_000, 50_000
_SECONDS_A_ROW = 5e-6
_EPOCH_ENDS_AFTER_SECONDS = 2.0
_INTERVAL_SECONDS = 0.5
_OTHER_ROWS = 1000
_PLUG = -1
"""The value that keeps `late` in its epoch."""
_LOOK_SECONDS = 0.02
_BOUND_SECONDS = 180.0
_EPOCHS_GOAL = 2.0


@dataclass(frozen=True, slots=True)
class Mode:
    """Settings, and the alignment that the checkpoint has at its end."""

    settings: Mapping[str, str | float]
    ends: Alignment


MODES: Mapping[str, Mode] = {
    "aligned": Mode({}, Alignment.ALIGNED),
    "aligned-timeout": Mode(
        {"checkpointing_unaligned": True, "checkpointing_aligned_timeout": 1.0}, Alignment.UNALIGNED
    ),
    "unaligned": Mode({"checkpointing_unaligned": True}, Alignment.UNALIGNED),
    "at-least-once": Mode({"checkpointing_mode": "at-least-once"}, Alignment.AT_LEAST_ONCE),
}


@dataclass(frozen=True, slots=True)
class Taken:
    """One checkpoint. `seconds`: until it was complete. `epochs`: how many epochs of `late` ended meanwhile. `held`:
    rows of `other` that waited behind its barrier, at the end. `in_flight`: rows in the channels that belong to it.
    `wait_seconds`: the longest time from the commit of a row of `other`, while the checkpoint was under way, until
    `union` had committed it. `again`: rows of `other` that `union` has in its state and reads again after a restore.
    """

    seconds: float
    epochs: int
    held: int
    in_flight: int
    wait_seconds: float
    again: int


COLUMNS: Mapping[str, Callable[[Taken], float]] = {
    "s until it is complete": lambda taken: taken.seconds,
    "epochs of the late reader": lambda taken: taken.epochs,
    "rows held": lambda taken: taken.held,
    "rows in flight": lambda taken: taken.in_flight,
    "s that a row of the other input waits at most": lambda taken: taken.wait_seconds,
    "rows that come again after a restore": lambda taken: taken.again,
}


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round takes a checkpoint of each kind. A short one warms the JVM before."""
    found: dict[str, list[Taken]] = {name: [] for name in MODES}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, own_session() as spark:
        _taken(spark, Path(folder) / "warm", MODES["unaligned"], _QUICK_ROWS)
        for number in range(rounds):
            for name, taken in found.items():
                place = Path(folder) / f"{name}-{number}"
                taken.append(_taken(spark, place, MODES[name], _QUICK_ROWS if quick else ROWS))
    return figures(found, _QUICK_ROWS if quick else ROWS)


def figures(found: Mapping[str, Sequence[Taken]], rows: int) -> list[Figure]:
    """One checkpoint a round of each mode."""
    return [
        *(_figure(name, taken, rows) for name, taken in found.items()),
        Figure(
            name="barrier-unaligned-epochs",
            what=f"epochs of the late reader until an unaligned checkpoint is complete, {rows:,} rows behind",
            value=median(each.epochs for each in found["unaligned"]),
            unit="epochs",
            better=Better.LOWER,
            goal=_EPOCHS_GOAL,
            samples={"tidegate epochs": [float(each.epochs) for each in found["unaligned"]]},
        ),
    ]


def _figure(name: str, taken: Sequence[Taken], rows: int) -> Figure:
    return Figure(
        name=f"{BY_ALIGNMENT}{name}",
        what=f"{name}: until a checkpoint is complete while an input of a union is {rows:,} rows behind",
        value=median(each.seconds for each in taken),
        unit="s",
        better=Better.LOWER,
        goal=None,
        samples={f"tidegate {column}": [of(each) for each in taken] for column, of in COLUMNS.items()},
    )


def _taken(spark: SparkSession, folder: Path, mode: Mode, rows: int) -> Taken:
    """The checkpoint of one job. Raises ValueError if its alignment at the end is another one, or if not all rows that
    are behind are in flight, or some where none may be.
    """
    place = _Place(folder)
    with _run(spark, place, mode) as (handle, shown):
        place.write(place.rows, [0])
        _until(handle, lambda: place.counted().keys() == {OTHER, LATE}, "a row of each input in the union")
        place.write(place.rows, [_PLUG])
        _until(handle, place.stuck.exists, "the late reader in its epoch")
        place.write(place.rows, range(rows))
        _until(handle, lambda: _shown_by(handle, "rows") == rows + 2, "all rows behind the late reader")
        place.write(place.start, [0])
        _until(handle, lambda: any(place.held.glob("*")), "a checkpoint under way")
        begun = time.time()
        handle.wait(_EPOCH_ENDS_AFTER_SECONDS)
        place.go.touch()
        _until(handle, lambda: bool(retained_numbers(place.job)), "the checkpoint, complete")
        published = _shown_by(handle, OTHER)
        _until(handle, lambda: place.counted()[OTHER] >= published, "the rows of the other input in the union")
    [record] = [found for number in retained_numbers(place.job) if (found := read_retained(place.job, number))]
    found = Alignment(record.alignment), record.taken[LATE].rows_in_flight
    if found != (mode.ends, rows if mode.ends is Alignment.UNALIGNED else 0):
        raise ValueError(f"the checkpoint is {record.alignment}, and {found[1]} rows of the late reader are in flight")
    return _of(record, place, begun, shown)


def _of(record: CheckpointRecord, place: _Place, begun: float, shown: Sequence[Step]) -> Taken:
    epochs = read_checkpoints(place.job)
    seconds = max(part.after_ms for part in record.taken.values()) / 1000
    given = done(each for each in epochs if each.query == OTHER)
    during = [each for each in given if begun <= each.at <= begun + seconds]
    at = {each.query: each for each in record.queries}
    reached = dict(positions_of(at[UNION].sources, at[UNION].offsets))[f"{OTHER}-in"] or ""
    read = sum((position_in(reached, f"{OTHER}-rows") or {}).values())
    return Taken(
        seconds=seconds,
        epochs=sum(each.query == LATE and begun <= each.at <= begun + seconds for each in epochs),
        held=record.taken[UNION].rows_held,
        in_flight=sum(part.rows_in_flight for part in record.taken.values()),
        wait_seconds=round(max(seconds_until_shown(during, shown), default=0.0), 1),
        again=max(0, read - (at[OTHER].epoch + 1) * _OTHER_ROWS),
    )


class _Place:
    """The folder of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows, self.start = folder / "rows", folder / "start"
        self.stuck, self.go = folder / "stuck", folder / "go"
        for each in (folder, self.rows, self.start):
            each.mkdir()
        self.job = Folder.of(folder / "jobs" / "bench")
        self.held = folder / "jobs" / "bench" / "checkpoints" / "held"
        self._files = 0

    def write(self, into: Path, values: Sequence[int]) -> None:
        """A file of these values: it is complete when it has its name."""
        self._files += 1
        hidden = self.folder / "next.parquet"
        pq.write_table(pa.table({"value": pa.array(values, pa.int64())}), hidden)
        hidden.rename(into / f"{self._files}.parquet")

    def counted(self) -> dict[str, int]:
        """How many rows of each input the union has counted."""
        if not (self.folder / "out.db").exists():
            return {}
        with closing(sqlite3.connect(self.folder / "out.db")) as database:
            try:
                return dict(database.execute("SELECT input, count FROM counts").fetchall())
            except sqlite3.OperationalError:
                return {}  # there is no table yet


@contextmanager
def _run(spark: SparkSession, place: _Place, mode: Mode) -> Generator[tuple[JobHandle, list[Step]]]:
    """The job, and what its union has shown of the other input, up to the end of the block."""
    shown: list[Step] = []

    def note(event: JobEvent) -> None:
        if event.query == UNION and isinstance(event.happening, happenings.EpochDone):
            shown.append(Step(event.at, place.counted().get(OTHER, 0)))

    job = Job(
        "bench",
        spark=spark,
        ui=False,
        listeners=[note],
        checkpointing_interval=_INTERVAL_SECONDS,
        checkpointing_dir=str(place.folder / "jobs"),
        **mode.settings,
    )
    _declare(job, place)
    with checkpoints_apart(NEVER_SECONDS):
        handle = job.start()
    try:
        yield handle, shown
    finally:
        handle.cancel()


def _declare(job: Job, place: _Place) -> None:
    others, rows, late = (job.channel(f"{name}-rows") for name in (OTHER, "rows", LATE))
    numbers = SparkSource("rate-micro-batch", schema=None, replayable=None, **{**SOURCE, "rowsPerBatch": _OTHER_ROWS})
    job.query(OTHER, job.source("numbers", numbers).select("value"), sinks=[others])
    job.query("rows", job.source("files", _files(place.rows)), sinks=[rows])
    slow = job.source("rows-in", rows).coalesce(1).mapInArrow(slowly(place.stuck, place.go), "value LONG")
    job.query(LATE, slow, sinks=[late])
    inputs = [
        job.source(f"{name}-in", each).select(F.lit(name).alias("input"))
        for name, each in ((OTHER, others), (LATE, late))
    ]
    table = SQLiteSink("table", place.folder / "out.db", table="counts", key="input")
    job.query(UNION, inputs[0].union(inputs[1]).groupBy("input").count(), mode="update", sinks=[table])
    sink = FileSink("started", place.folder / "started", format="parquet")
    job.query("starter", job.source("start", _files(place.start)), sinks=[sink])


def _files(folder: Path) -> FileSource:
    return FileSource(str(folder), format="parquet", schema="value LONG", settle=0)


def slowly(stuck: Path, go: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on, with a pause for each of them. At the plug it makes one file, and waits for the other."""

    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if _PLUG in batch.column(0).to_pylist()[:1]:
                stuck.touch()
                end = time.monotonic() + _BOUND_SECONDS
                while not go.exists() and time.monotonic() < end:
                    time.sleep(_LOOK_SECONDS)
            time.sleep(batch.num_rows * _SECONDS_A_ROW)
            yield batch

    return passed


def _shown_by(handle: JobHandle, query: str) -> int:
    return next(each.rows for each in handle.status().queries if each.uid == query)


def _until(handle: JobHandle, is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _BOUND_SECONDS
    while not is_so():
        if handle.wait(_LOOK_SECONDS) or time.monotonic() > end:
            raise RuntimeError(f"waited for {what}")
