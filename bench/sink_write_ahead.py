"""What a write-ahead sink costs against two-phase commit, for the same rows into the same PostgreSQL table.

A million rows of six columns, from two writers in processes of their own, as the tasks of an epoch. Two-phase commit is
`PostgresSink` with its staged protocol: the tasks copy rows into staging tables, and one transaction takes them. The
write-ahead sink is one of a user: the tasks write rows into the journal of the checkpoint and sync it; behind the
decision the driver reads the journal and copies the rows, with the key of the epoch, in one transaction. So its rows go
through one process, and nothing of an epoch that is not decided ever reaches the server.

The figure is the time of two-phase commit divided by the time of the write-ahead sink. The time of the tasks is that of
the journal. Its bytes stand beside it.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from statistics import median

import msgspec
import psycopg
import pyarrow as pa

from bench.figures import Better, Figure
from bench.sink_contest import (
    IDENTITY,
    QUICK_SHARE,
    SCHEMA,
    WRITERS,
    attempt_of,
    epoch_by,
    epoch_of,
    made,
    plan_of,
    samples_of,
    speed,
    writers_of,
)
from bench.sink_postgres import TABLE, emptied, opened, running, target
from tests.support.postgres import PostgresServer
from tidegate import WriteAheadSink
from tidegate.core.records import Committable, Evidence
from tidegate.sinks.postgres.copy_format import HEADER, TRAILER, rows_of
from tidegate.sinks.write_ahead import DecidedEpoch
from tidegate.storages.journal import journal_name
from tidegate.storages.journals import open_journal

ROWS = 1_000_000


class CopySink(WriteAheadSink):
    """Copies each decided epoch into the table, with its key in the table `published`."""

    def __init__(self, uid: str, conninfo: str) -> None:
        super().__init__(uid)
        self._conninfo = conninfo
        self._columns = target(conninfo).of(SCHEMA.names)

    def confirmed(self, epoch: DecidedEpoch) -> bool:
        with psycopg.connect(self._conninfo) as connection:
            return connection.execute("SELECT 1 FROM published WHERE key = %s", (epoch.key,)).fetchone() is not None

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        statement = f"COPY {TABLE} FROM STDIN (FORMAT binary)".encode()
        with psycopg.connect(self._conninfo) as connection:
            connection.execute("INSERT INTO published VALUES (%s)", (epoch.key,))
            with connection.cursor().copy(statement) as copy:
                copy.write(HEADER)
                for batch in batches:
                    copy.write(rows_of(batch, self._columns))
                copy.write(TRAILER)

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.UNKNOWN


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round runs an epoch by two-phase commit, then one of the write-ahead sink."""
    rows = ROWS // (QUICK_SHARE if quick else 1)
    share = rows // WRITERS
    sizes: list[float] = []
    with (
        running() as server,
        writers_of(share) as writers,
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
    ):
        two_phase, journal = opened(server, "staged"), open_journal(Path(folder) / "journal")
        write_ahead = _write_ahead(server, Path(folder))

        def baseline(number: int) -> Mapping[str, float]:
            return epoch_of(two_phase, writers, number, rows)

        def tidegate(number: int) -> Mapping[str, float]:
            return epoch_by(partial(journalled, write_ahead, Path(folder), number, share), write_ahead, writers)

        def before(number: int) -> None:
            sizes.append(sum(file.stat().st_size for file in Path(folder).rglob("*.arrow")))
            journal.delete_through(number - 1)
            two_phase.clean(IDENTITY, number - 1)
            emptied(server)

        samples = samples_of({"baseline": baseline, "tidegate": tidegate}, rounds, server.session, before)
    what = (
        f"speed of a write-ahead sink, {rows:,} rows into PostgreSQL by {WRITERS} writers; baseline: the same rows by"
    )
    a_row = round(max(sizes) / rows, 1)
    journal_s = samples["tidegate s of the tasks"]
    return [
        speed("sink-write-ahead", f"{what} two-phase commit, protocol staged", samples, None),
        Figure(
            name="sink-write-ahead-journal",
            what=f"bytes of a row in the journal of a write-ahead sink, and the time that {rows:,} rows take there",
            value=a_row,
            unit="bytes",
            better=Better.LOWER,
            goal=None,
            samples={"tidegate s": journal_s, "tidegate rows/s": [round(rows / median(journal_s))]},
        ),
    ]


def journalled(sink: CopySink, folder: Path, epoch: int, rows: int, writer: int) -> Committable:
    """The transaction of a task, and its rows in the journal, as a task has them."""
    attempt = attempt_of(epoch, writer)
    transaction, journal = sink.begin(attempt), open_journal(folder / "journal").writer(journal_name(attempt))
    for batch in made(writer, rows):
        transaction.write(batch)
        journal.write(batch)
    committable = transaction.pre_commit()
    if committable is None:
        raise RuntimeError("an epoch without rows")
    return msgspec.structs.replace(committable, journal=journal.close())


def _write_ahead(server: PostgresServer, folder: Path) -> CopySink:
    server.execute("CREATE TABLE published (key text PRIMARY KEY)")
    sink = CopySink("ahead", server.conninfo)
    sink.open(dataclasses.replace(plan_of(), read_journal=open_journal(folder / "journal").read))
    return sink
