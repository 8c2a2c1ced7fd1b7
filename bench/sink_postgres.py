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
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg

from bench.figures import Better, Figure
from bench.sink_contest import (
    IDENTITY,
    QUICK_SHARE,
    WRITERS,
    batches_of,
    committed,
    epoch_of,
    in_each,
    plan_of,
    samples_of,
    speed,
    staged,
    writers_of,
)
from tests.support.postgres import PostgresServer, started
from tidegate import PostgresSink
from tidegate.sinks.postgres.copy_format import HEADER, TRAILER, rows_of
from tidegate.sinks.postgres.table import TargetTable, table_of

ROWS = 2_000_000
GOALS: Mapping[str, float] = {"staged": 0.45, "prepared": 0.8}
"""Of the speed of bare COPY, by protocol."""
TABLE = "measured"

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


def measure_append(protocol: str, rounds: int, *, quick: bool) -> list[Figure]:
    """Every round copies, then runs an epoch of the sink."""
    rows = ROWS // (QUICK_SHARE if quick else 1)
    share = rows // WRITERS
    with (
        running() as server,
        writers_of(share) as writers,
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
    ):
        sink = opened(server, protocol)
        in_each(writers, encoded, server.conninfo, Path(folder), share)

        def baseline(_: int) -> None:
            in_each(writers, copied, server.conninfo, Path(folder))

        def tidegate(number: int) -> Mapping[str, float]:
            return epoch_of(sink, writers, number, rows)

        def before(number: int) -> None:
            sink.clean(IDENTITY, number - 1)
            emptied(server)

        sides = {"baseline": baseline, "tidegate": tidegate}
        samples = samples_of(sides, rounds, server.session, before)
    what = (
        f"speed of {rows:,} rows into PostgreSQL by {WRITERS} writers, protocol {protocol}; baseline: bare binary COPY"
        " of the same bytes over as many connections"
    )
    return [speed(f"sink-postgres-{protocol}", what, samples, GOALS[protocol])]


def measure_readers(rounds: int, *, quick: bool) -> list[Figure]:
    """The longest look of a reader, over all rounds."""
    rows = ROWS // 2 // (QUICK_SHARE if quick else 1)
    commits, looks = [], []
    with running() as server, writers_of(rows // WRITERS) as writers:
        sink = opened(server, "staged")
        server.execute(f"INSERT INTO {TABLE} (f) VALUES (-1)")
        server.execute(f"CREATE INDEX ON {TABLE} (f)")
        for number in range(rounds):
            committables = list(writers.map(partial(staged, sink, number, rows // WRITERS), range(WRITERS)))
            with _reader(server) as found:
                begun = time.perf_counter()
                committed(sink, committables)
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
    epochs = _EPOCHS // (QUICK_SHARE if quick else 1)
    with running() as server:
        sink = opened(server, "staged")
        for epoch in range(epochs):
            committed(sink, [staged(sink, epoch, 1, 0)])
            sink.clean(IDENTITY, epoch)
        ((ledger,),) = server.execute("SELECT count(*) FROM _tidegate_ledger")
        ((stages,),) = server.execute("SELECT count(*) FROM pg_class WHERE relname LIKE '\\_tidegate\\_stage%'")
    figure = partial(Figure, unit="", better=Better.LOWER)
    what = f"of a PostgreSQL sink behind {epochs:,} epochs"
    return [
        figure(name="sink-postgres-ledger", what=f"ledger rows {what}", value=ledger, goal=_LEDGER_AT_MOST),
        figure(name="sink-postgres-stages", what=f"staging tables {what}", value=stages, goal=0.0),
    ]


# --- in the processes of the writers -----------------------------------------------------------------------


def encoded(conninfo: str, folder: Path, rows: int, writer: int) -> None:
    """A file with the rows of a writer in the binary format of COPY."""
    columns = target(conninfo).of(next(iter(batches_of(writer, 1))).schema.names)
    with _file(folder, writer).open("wb") as out:
        out.write(HEADER)
        for batch in batches_of(writer, rows):
            out.write(rows_of(batch, columns))
        out.write(TRAILER)


def copied(conninfo: str, folder: Path, writer: int) -> None:
    """The bare COPY of such a file."""
    statement = f"COPY {TABLE} FROM STDIN (FORMAT binary)".encode()
    with (
        _file(folder, writer).open("rb") as data,
        psycopg.connect(conninfo) as connection,
        connection.cursor().copy(statement) as copy,
    ):
        while piece := data.read(1 << 20):
            copy.write(piece)


def target(conninfo: str) -> TargetTable:
    """The measured table, as the sink sees it."""
    with psycopg.connect(conninfo) as connection:
        table = table_of(connection, "public", TABLE)
    if table is None:
        raise RuntimeError(f"no table {TABLE}")
    return table


def _file(folder: Path, writer: int) -> Path:
    return folder / str(writer)


# --- the driver's part ---------------------------------------------------------------------------------------


@contextmanager
def running() -> Generator[PostgresServer]:
    """A server with settings as in production."""
    server = started(**_LIKE_PRODUCTION)
    try:
        yield server
    finally:
        server.remove()


def opened(server: PostgresServer, protocol: str) -> PostgresSink:
    """A sink as a job opens it, and its table."""
    sink = PostgresSink("table", server.conninfo, table=TABLE, protocol=protocol)
    sink.open(plan_of())
    return sink


def emptied(server: PostgresServer) -> None:
    server.execute(f"TRUNCATE {TABLE}")
    server.execute("CHECKPOINT")


@contextmanager
def _reader(server: PostgresServer) -> Generator[list[float]]:
    """Looks at one row until the block ends; the seconds of each look."""
    seconds: list[float] = []
    over = threading.Event()

    def look() -> None:
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            while not over.is_set():
                begun = time.perf_counter()
                connection.execute(f"SELECT b FROM {TABLE} WHERE f = -1".encode()).fetchall()
                seconds.append(time.perf_counter() - begun)
                over.wait(0.001)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seconds
    finally:
        over.set()
        thread.join()
