"""Spark with Delta's own package reads and writes the tables of the sink, also those whose rows are replaced by key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.delta import rows_of
from tests.support.staged import outcome, staged
from tidegate.core.errors import TidegateError
from tidegate.core.records import Outcome
from tidegate.machine.jars import Bundle, fetched
from tidegate.sinks.delta.sink import DeltaSink
from tidegate.testing.contract import IDENTITY, SCHEMA

PROGRAM = Path(__file__).with_name("spark_statements.py")
SPARK_4_2 = Path(sys.prefix) / "spark-4.2"
_NAME, _VERSION = "delta-spark_4.2_2.13", "4.4.0"
DELTA = Bundle(
    f"Delta {_VERSION} for Spark 4.2",
    f"delta-4.2-{_VERSION}",
    (("io.delta", _NAME, _VERSION), ("io.delta", "delta-storage", _VERSION)),
    f"{_NAME}-{_VERSION}.jar",
    without=(("org.apache.spark", "*"), ("org.scala-lang", "*"), ("org.antlr", "*")),
)


def spark(table: Path, *statements: str) -> list[dict[str, Any]]:
    """The rows that Spark 4.2 reads when it has run these statements. `TABLE` in them is the table."""
    assert SPARK_4_2.is_dir(), "`./dev test` installs it"
    jars = ",".join(map(str, sorted(fetched(DELTA, lambda _: None).glob("*.jar"))))
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(table), jars, *statements],
        env={**environment, "PYTHONPATH": str(SPARK_4_2), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["spark"].startswith("4.2.")
    return told["rows"]


def epoch(sink: DeltaSink, number: int, rows: dict[int, str | None]) -> None:
    batch = pa.RecordBatch.from_pylist([{"id": each, "word": word} for each, word in rows.items()], schema=SCHEMA)
    assert outcome(sink, staged(sink, number, rows=batch)) is Outcome.COMMITTED
    sink.clean(IDENTITY, number)


def by_id(rows: list[dict[str, Any]]) -> dict[int, str | None]:
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["word"] for row in rows}


@pytest.mark.more
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("partition_by", [(), "word"], ids=["whole", "parts"])
def test_spark_reads_and_writes_a_table_whose_rows_are_replaced(tmp_path: Path, partition_by: str) -> None:
    """With checkpoints of the log, compaction by both, and rows of Spark that the sink replaces."""
    path = tmp_path / "the table"
    properties = {"delta.checkpointInterval": "4"}
    sink = DeltaSink("numbers", path, key="id", partition_by=partition_by, compact_at=3, properties=properties)
    wanted: dict[int, str | None] = {}
    for number in range(6):
        rows: dict[int, str | None] = {number: "a b", number + 1: "c/d=e%f", 100: "é", 101: None}
        epoch(sink, number, rows)
        wanted |= rows
    assert by_id(rows_of(path)) == wanted

    statements = (
        "INSERT INTO TABLE VALUES (200, 'a b'), (201, 'c/d=e%f'), (202, NULL)",
        "UPDATE TABLE SET word = 'new' WHERE id = 3",
        "DELETE FROM TABLE WHERE id = 4",
        "OPTIMIZE TABLE",
    )
    wanted |= {200: "a b", 201: "c/d=e%f", 202: None, 3: "new"}
    del wanted[4]
    assert by_id(spark(path, *statements)) == wanted

    last: dict[int, str | None] = {3: "a b", 200: "c/d=e%f", 201: "new", 100: "z", 7: "a b"}
    epoch(sink, 6, last)
    wanted |= last
    assert by_id(rows_of(path)) == wanted
    assert by_id(spark(path)) == wanted


@pytest.mark.more
@pytest.mark.timeout(1200)
def test_a_path_of_spark_that_the_library_writes_otherwise_is_refused(tmp_path: Path) -> None:
    """Spark keeps letters beyond ASCII in the paths of its log, and the library encodes them."""
    path = tmp_path / "t"
    sink = DeltaSink("numbers", path, key="id", partition_by="word")
    epoch(sink, 0, {1: "a"})
    assert by_id(spark(path, "INSERT INTO TABLE VALUES (2, 'é')")) == {1: "a", 2: "é"}
    epoch(sink, 1, {1: "b"})
    assert by_id(rows_of(path)) == {1: "b", 2: "é"}
    with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
        epoch(sink, 2, {2: "b"})
    assert by_id(rows_of(path)) == {1: "b", 2: "é"}
