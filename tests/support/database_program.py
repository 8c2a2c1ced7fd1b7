"""Numbered rows with a random mark into two tables of a database and one of SQLite, in the same epochs.

The mark is drawn by Python each time a row is computed: rows of two evaluations of one epoch never agree. `log` has
every row. `latest` has the newest row of each key, unless that row says that the key is gone. `protocol`: of `log`.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from tests.support.killed_epochs import EACH
from tests.support.session import small_session
from tidegate import FileSource, Job, MySQLSink, PostgresSink, Restore, SQLiteSink, TwoPhaseSink

KEYS = EACH
_PASSWORD = "env:THE_PASSWORD"


def drawn(numbers: pd.Series) -> pd.Series:
    return pd.Series([uuid.uuid4().hex for _ in numbers])


def postgres(conninfo: str, schema: str, protocol: str, latest: Mapping[str, Any]) -> list[TwoPhaseSink]:
    server: dict[str, Any] = {"conninfo": conninfo, "schema": schema, "options": {"password": _PASSWORD}}
    return [
        PostgresSink("log", table="log", protocol=protocol, **server),
        PostgresSink("latest", table="latest", **latest, **server),
    ]


def mysql(port: str, database: str, protocol: str, latest: Mapping[str, Any]) -> list[TwoPhaseSink]:
    """`log` is written by LOAD DATA, `latest` by INSERT."""
    server: dict[str, Any] = {"host": "127.0.0.1", "database": database}
    login = {"port": port, "user": "owner", "password": _PASSWORD}
    return [
        MySQLSink("log", table="log", protocol=protocol, options={**login, "local_infile": "true"}, **server),
        MySQLSink("latest", table="latest", options=login, **latest, **server),
    ]


SINKS: Mapping[str, Callable[[str, str, str, Mapping[str, Any]], list[TwoPhaseSink]]] = {
    "postgres": postgres,
    "mysql": mysql,
}


def main(kind: str, folder: Path, address: str, namespace: str, protocol: str, back_to: str = "") -> None:
    """`namespace`: a schema of PostgreSQL, a database of MySQL. `back_to`: a retained checkpoint that is restored
    first.
    """
    spark = small_session(spark_sql_shuffle_partitions="3")
    job = Job("copy", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    draw: Any = F.pandas_udf
    mark = draw(drawn, "string")(F.col("number"))
    source = FileSource(str(folder / "in"), format="json", schema="number long", maxFilesPerTrigger=1)
    rows = job.source("numbers", source).repartition(3, "number").withColumn("mark", mark)
    columns = [
        (F.col("number") % KEYS).alias("key"),
        "number",
        "mark",
        (F.col("number") % 7 == 0).alias("is gone"),
    ]
    latest = {"key": "key", "deleted": "is gone", "select": columns}
    sinks = SINKS[kind](address, namespace, protocol, latest)
    job.query("copy", rows, sinks=[*sinks, SQLiteSink("table", folder / "out.db", table="rows")])
    job.run(until="caught-up", savepoint=Restore(back_to, rewind="back") if back_to else None)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
