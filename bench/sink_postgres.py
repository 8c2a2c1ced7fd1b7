"""What a PostgreSQL sink costs against bare COPY, what its commit does to readers, and what it leaves behind.

*Append*: two million rows of six columns, from two writers in processes of their own, as the tasks of an epoch. The
baseline is the bare binary COPY of the same rows over as many connections, into the same table, encoded beforehand. The
sink encodes its rows, pre-commits, and one driver commits. The server's log is synced, as in production. The figure is
the baseline's time divided by the sink's.

*Readers*: while an epoch of a million staged rows is committed, a reader looks up one row of the table again and again.
The figure is its longest look.

*Growth*: two thousand epochs of a few rows. The figures are the rows of the ledger and the staging tables at the end.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
import psycopg
import pyarrow as pa

from bench.figures import Better, Figure
from tests.support.postgres import PostgresServer, started
from tidegate import PostgresSink
from tidegate.core.records import Attempt, Committable, Outcome, SinkIdentity
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.postgres.copy_format import HEADER, TRAILER, rows_of
from tidegate.sinks.postgres.table import table_of

WRITERS = 2
ROWS = 2_000_000
BATCH = 50_000
GOALS: Mapping[str, float] = {"staged": 0.45, "prepared": 0.8}
"""Of the speed of bare COPY, by protocol."""

_TABLE = "measured"
_QUICK_SHARE = 10
_READERS_GOAL_MS = 100.0
_EPOCHS = 2000
_LEDGER_AT_MOST = 100.0
_LIKE_PRODUCTION = {
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "max_prepared_transactions": "16",
}
_IDENTITY = SinkIdentity(job="bench", job_id="0badcafe", generation=1, query="measured", sink="table")


def measure_append(protocol: str, rounds: int, *, quick: bool) -> list[Figure]:
    """Every round copies, then runs an epoch of the sink; a round before them warms the writers and the server."""
    rows = ROWS // (_QUICK_SHARE if quick else 1)
    samples: dict[str, list[float]] = {}
    share = rows // WRITERS
    with (
        _server() as server,
        _writers(share) as writers,
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
    ):
        sink = opened(server, protocol)
        files = list(writers.map(partial(encoded, server.conninfo, Path(folder), share), range(WRITERS)))
        for number in range(rounds + 1):
            found = {
                "baseline s": _timed(server, lambda: list(writers.map(partial(copied, server.conninfo), files))),
                **_epoch(server, sink, writers, number, rows),
            }
            if number:
                for side, seconds in found.items():
                    samples.setdefault(side, []).append(round(seconds, 3))
    return [
        Figure(
            name=f"sink-postgres-{protocol}",
            what=f"speed of {rows:,} rows into PostgreSQL by {WRITERS} writers, protocol {protocol}; baseline: bare"
            " binary COPY of the same bytes over as many connections",
            value=round(median(samples["baseline s"]) / median(samples["tidegate s"]), 2),
            unit="x",
            better=Better.HIGHER,
            goal=GOALS[protocol],
            samples=samples,
        )
    ]


def measure_readers(rounds: int, *, quick: bool) -> list[Figure]:
    """The longest look of a reader, over all rounds."""
    rows = ROWS // 2 // (_QUICK_SHARE if quick else 1)
    commits, looks = [], []
    with _server() as server, _writers(rows // WRITERS) as writers:
        sink = opened(server, "staged")
        server.execute(f"INSERT INTO {_TABLE} (f) VALUES (-1)")
        server.execute(f"CREATE INDEX ON {_TABLE} (f)")
        for number in range(rounds):
            committables = list(writers.map(partial(staged, sink, number, rows // WRITERS), range(WRITERS)))
            with _reader(server) as found:
                begun = time.perf_counter()
                _commit(sink, committables)
                commits.append(round(time.perf_counter() - begun, 3))
            looks.append(round(1000 * max(found), 1))
    return [
        Figure(
            name="sink-postgres-readers",
            what=f"longest look of a reader at a row of the table, while {rows:,} staged rows are committed",
            value=max(looks),
            unit="ms",
            better=Better.LOWER,
            goal=_READERS_GOAL_MS,
            samples={"longest look ms": looks, "commit s": commits},
        )
    ]


def measure_growth(rounds: int, *, quick: bool) -> list[Figure]:
    """One run, whatever the rounds."""
    epochs = _EPOCHS // (_QUICK_SHARE if quick else 1)
    with _server() as server:
        sink = opened(server, "staged")
        for epoch in range(epochs):
            _commit(sink, [staged(sink, epoch, 1, 0)])
            sink.clean(_IDENTITY, epoch)
        ((ledger,),) = server.execute("SELECT count(*) FROM _tidegate_ledger")
        ((stages,),) = server.execute("SELECT count(*) FROM pg_class WHERE relname LIKE '\\_tidegate\\_stage%'")
    figure = partial(Figure, unit="", better=Better.LOWER)
    what = f"of a PostgreSQL sink behind {epochs:,} epochs"
    return [
        figure(name="sink-postgres-ledger", what=f"ledger rows {what}", value=ledger, goal=_LEDGER_AT_MOST),
        figure(name="sink-postgres-stages", what=f"staging tables {what}", value=stages, goal=0.0),
    ]


# --- in the processes of the writers -----------------------------------------------------------------------


def batches_of(writer: int, rows: int) -> Generator[pa.RecordBatch]:
    """The rows of a writer: numbers, a text and a time, as an order may have them."""
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


@cache
def made(writer: int, rows: int) -> tuple[pa.RecordBatch, ...]:
    """The rows of `batches_of`, which a process makes once, before it is measured."""
    return tuple(batches_of(writer, rows))


def make_rows(rows: int) -> None:
    """In a new process: the rows of each writer, because any process may take any of them."""
    for writer in range(WRITERS):
        made(writer, rows)


def encoded(conninfo: str, folder: Path, rows: int, writer: int) -> Path:
    """A file with the rows of a writer in the binary format of COPY."""
    with psycopg.connect(conninfo) as connection:
        table = table_of(connection, "public", _TABLE)
    if table is None:
        raise RuntimeError(f"no table {_TABLE}")
    file = folder / str(writer)
    with file.open("wb") as out:
        out.write(HEADER)
        for batch in batches_of(writer, rows):
            out.write(rows_of(batch, table.of(batch.schema.names)))
        out.write(TRAILER)
    return file


def copied(conninfo: str, file: Path) -> None:
    """The bare COPY of such a file."""
    statement = f"COPY {_TABLE} FROM STDIN (FORMAT binary)".encode()
    with (
        file.open("rb") as data,
        psycopg.connect(conninfo) as connection,
        connection.cursor().copy(statement) as copy,
    ):
        while piece := data.read(1 << 20):
            copy.write(piece)


def staged(sink: PostgresSink, epoch: int, rows: int, writer: int) -> Committable:
    """The transaction of a task, up to its pre-commit. Its rows are there before, as those of a task are."""
    attempt = Attempt(sink=_IDENTITY, run=1, run_token="bench", epoch=epoch, task=writer, task_attempt=writer)
    transaction = sink.begin(attempt)
    for batch in made(writer, rows):
        transaction.write(batch)
    committable = transaction.pre_commit()
    if committable is None:
        raise RuntimeError("an epoch without rows")
    return committable


# --- the driver's part ---------------------------------------------------------------------------------------


@contextmanager
def _server() -> Generator[PostgresServer]:
    server = started(**_LIKE_PRODUCTION)
    try:
        yield server
    finally:
        server.remove()


@contextmanager
def _writers(rows: int) -> Generator[ProcessPoolExecutor]:
    """Processes that have the rows of each writer."""
    with ProcessPoolExecutor(WRITERS, get_context("spawn"), make_rows, (rows,)) as pool:
        yield pool


def opened(server: PostgresServer, protocol: str) -> PostgresSink:
    """A sink as a job opens it, and its table."""
    sink = PostgresSink("table", server.conninfo, table=_TABLE, protocol=protocol)
    schema = next(iter(batches_of(0, 1))).schema
    sink.open(SinkPlan(identity=_IDENTITY, schema=schema, mode="append", local_master=True, read_journal=lambda _: ()))
    return sink


def _epoch(
    server: PostgresServer, sink: PostgresSink, writers: ProcessPoolExecutor, number: int, rows: int
) -> dict[str, float]:
    """Seconds of a whole epoch, and of its two halves."""
    committables: list[Committable] = []

    def write() -> None:
        committables.extend(writers.map(partial(staged, sink, number, rows // WRITERS), range(WRITERS)))

    wrote = _timed(server, write)
    begun = time.perf_counter()
    _commit(sink, committables)
    took = time.perf_counter() - begun
    sink.clean(_IDENTITY, number)
    return {"tidegate s": wrote + took, "tidegate s of the tasks": wrote, "tidegate s of the commit": took}


def _timed(server: PostgresServer, work: Callable[[], object]) -> float:
    """Seconds of the work, on an empty table."""
    server.execute(f"TRUNCATE {_TABLE}")
    server.execute("CHECKPOINT")
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _commit(sink: PostgresSink, committables: list[Committable]) -> None:
    for answer in sink.commit(committables):
        if answer.outcome is not Outcome.COMMITTED:
            raise RuntimeError(str(answer))


@contextmanager
def _reader(server: PostgresServer) -> Generator[list[float]]:
    """Looks at one row until the block ends; the seconds of each look."""
    seconds: list[float] = []
    over = threading.Event()

    def look() -> None:
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            while not over.is_set():
                begun = time.perf_counter()
                connection.execute(f"SELECT b FROM {_TABLE} WHERE f = -1".encode()).fetchall()
                seconds.append(time.perf_counter() - begun)
                over.wait(0.001)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seconds
    finally:
        over.set()
        thread.join()
