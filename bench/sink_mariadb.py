"""What a MySQL sink costs against bare LOAD DATA LOCAL.

A million rows of six columns, from two writers in processes of their own, as the tasks of an epoch. The baseline loads
files with the same rows over as many connections, into the same table; the files are written beforehand. The sink
(protocol staged, `local_infile` allowed) encodes its rows, fills its staging tables by LOAD DATA LOCAL, too, and one
driver commits. The server syncs its log at each commit, on a disk. The figure is the baseline's time divided by the
sink's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.sink_contest import (
    IDENTITY,
    QUICK_SHARE,
    SCHEMA,
    WRITERS,
    batches_of,
    epoch_of,
    in_each,
    plan_of,
    samples_of,
    speed,
    writers_of,
)
from tests.support.mariadb import MariaDBServer, started
from tidegate import MySQLSink
from tidegate.sinks.mysql.fields import LINES, row_texts

ROWS = 1_000_000
GOAL = 0.4
_DATABASE, _TABLE = "bench", "measured"
_LIKE_PRODUCTION = {
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_buffer_pool_size": "1G",
    "innodb_log_file_size": "2G",
}


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round loads the files, then runs an epoch of the sink."""
    rows = ROWS // (QUICK_SHARE if quick else 1)
    share = rows // WRITERS
    with (
        _running() as server,
        writers_of(share) as writers,
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
    ):
        sink = _opened(server)
        in_each(writers, written, Path(folder), share)

        def baseline(_: int) -> None:
            in_each(writers, loaded, server.options(), Path(folder))

        def tidegate(number: int) -> Mapping[str, float]:
            return epoch_of(sink, writers, number, rows)

        def before(number: int) -> None:
            sink.clean(IDENTITY, number - 1)
            server.execute(f"TRUNCATE {_TABLE}", database=_DATABASE)

        sides = {"baseline": baseline, "tidegate": tidegate}
        samples = samples_of(sides, rounds, server.session, before)
    what = (
        f"speed of {rows:,} rows into MariaDB by {WRITERS} writers, protocol staged; baseline: LOAD DATA LOCAL of the"
        " same rows over as many connections"
    )
    return [speed("sink-mariadb-staged", what, samples, GOAL)]


# --- in the processes of the writers -----------------------------------------------------------------------


def written(folder: Path, rows: int, writer: int) -> None:
    """A file with the rows of a writer, as LOAD DATA reads them."""
    with _file(folder, writer).open("wb") as out:
        for batch in batches_of(writer, rows):
            out.write(row_texts(batch, (), LINES).data)


def loaded(options: Mapping[str, Any], folder: Path, writer: int) -> None:
    """The bare LOAD DATA LOCAL of such a file."""
    import pymysql

    given: dict[str, Any] = {**options, "host": "127.0.0.1", "database": _DATABASE, "local_infile": True}
    with pymysql.connect(init_command="SET time_zone = '+00:00'", **given) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"LOAD DATA LOCAL INFILE '{_file(folder, writer)}' INTO TABLE {_TABLE} CHARACTER SET utf8mb4"
            f" ({', '.join(SCHEMA.names)})"
        )
        connection.commit()


def _file(folder: Path, writer: int) -> Path:
    return folder / str(writer)


# --- the driver's part ---------------------------------------------------------------------------------------


@contextmanager
def _running() -> Generator[MariaDBServer]:
    server = started(on_disk=True, **_LIKE_PRODUCTION)
    try:
        server.execute(f"CREATE DATABASE {_DATABASE}")
        yield server
    finally:
        server.remove()


def _opened(server: MariaDBServer) -> MySQLSink:
    """A sink as a job opens it, and its table."""
    options = server.options(local_infile=True)
    sink = MySQLSink("table", "127.0.0.1", database=_DATABASE, table=_TABLE, options=options)
    sink.open(plan_of())
    return sink
