"""What the file sink writes is what `spark.read` of that format gives back, and its folders are Spark's."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run
from tests.support.today import turn
from tidegate import FileSink
from tidegate.core.records import Outcome
from tidegate.sinks.base import SinkPlan
from tidegate.testing.contract import IDENTITY, attempt_of

TEXTS = [
    *("plain", "", None, "NULL", '"', '""', 'a"b', "\\", 'a\\"b', "a,b", " lead and trail ", "#", "'", "ä€😀", "\t"),
    *("2026-11-21", "007", "1e3", "true", "a=b", "a/b", "50%", "%41", "{x}[y]^z", "..", ".", "_x", "~!@$&()+;<>|`"),
]
BROKEN_LINES = ["two\nlines", "carriage\rreturn", "both\r\nof them", "\n"]
NUMBERS = [1.5, 0.1, -1e300, math.inf, -math.inf, None, 5e-324, 0.0]

SCHEMA = (
    "id long, text string, number double, small float, yes boolean, day date, at timestamp, local timestamp_ntz, "
    "money decimal(20,4), tiny byte"
)
MOMENT = datetime(2026, 11, 21, 23, 59, 59, 999999, tzinfo=timezone.utc)


def nasty(spark: SparkSession, texts: list[str | None]) -> DataFrame:
    """A row for each text; the other columns take their turns and are null now and then."""
    rows = [
        (
            number,
            text,
            NUMBERS[number % len(NUMBERS)],
            None if number % 3 == 0 else number / 4,
            [True, False, None][number % 3],
            None if number % 4 == 0 else date(2026, 1, 1 + number % 28),
            None if number % 5 == 0 else MOMENT,
            None if number % 6 == 0 else MOMENT.replace(tzinfo=None),
            None if number % 7 == 0 else Decimal(number).scaleb(-4),
            None if number % 2 == 0 else -(number % 100),
        )
        for number, text in enumerate(texts)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def write(sink: FileSink, rows: DataFrame) -> None:
    """Two tasks, one epoch, through the sink as a job would."""
    table: pa.Table = rows.toArrow()
    sink.open(
        plan := SinkPlan(
            identity=IDENTITY, schema=table.schema, mode="append", local_master=True, read_journal=lambda _: []
        )
    )
    assert list(sink.check(plan)) == []
    committables = []
    for task, half in enumerate([table.slice(0, table.num_rows // 2), table.slice(table.num_rows // 2)]):
        transaction = sink.begin(msgspec.structs.replace(attempt_of(), task=task))
        for batch in half.combine_chunks().to_batches():
            transaction.write(batch)
        committables.append(transaction.pre_commit())
    assert {answer.outcome for answer in sink.commit(committables)} == {Outcome.COMMITTED}


def counted(rows: DataFrame, like: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(repr(value) for value in row) for row in rows.select(like.columns).collect())


EXACT_CSV = {"escape": '"', "multiLine": True, "lineSep": "\n", "nullValue": "\0"}
"""What Spark must be told to read every text back: how a quote is doubled, that a text may have line breaks, that a
carriage return is no line break, and that an empty text is no null."""

FORMATS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "parquet": ({}, {}),
    "json": ({}, {}),
    "csv": ({}, EXACT_CSV),
    "csv with header": ({"header": True}, {**EXACT_CSV, "header": True}),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "one file a task": {},
    "small files": {"target_file_bytes": 2_000, "max_file_rows": 9},
    "by yes and day": {"partition_by": ["yes", "day"]},
}


@turn(2, of=3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("format", FORMATS)
def test_spark_reads_the_same_rows(spark: SparkSession, tmp_path: Path, format: str, layout: str) -> None:
    rows = nasty(spark, [*TEXTS, *BROKEN_LINES])
    written, read = FORMATS[format]
    name = format.split()[0]
    write(FileSink("out", tmp_path / "out", format=name, **written, **LAYOUTS[layout]), rows)
    found = spark.read.format(name).schema(rows.schema).options(**read).load(str(tmp_path / "out"))
    assert counted(found, rows) == counted(rows, rows)


@pytest.mark.parametrize("layout", [{}, {"partition_by": "id"}], ids=["plain", "by id"])
def test_spark_reads_the_same_lines(spark: SparkSession, tmp_path: Path, layout: dict[str, Any]) -> None:
    rows = nasty(spark, [*TEXTS, *TEXTS]).where("text IS NOT NULL").select(*(["id"] if layout else []), "text")
    write(FileSink("out", tmp_path / "out", format="text", **layout), rows)
    reader = spark.read.format("text").schema("text string, id long" if layout else "text string")
    assert counted(reader.load(str(tmp_path / "out")), rows) == counted(rows, rows)


@turn(0, of=2)
def test_a_text_names_its_folder_as_spark_itself_does(spark: SparkSession, tmp_path: Path) -> None:
    odd = [*TEXTS, *BROKEN_LINES, "\x01\x1f\x7f", "a" * 240, *map(chr, range(1, 0x7F))]
    rows = nasty(spark, odd).select("id", F.col("text").alias("te xt#=1"))
    write(FileSink("out", tmp_path / "ours", partition_by="te xt#=1"), rows)
    rows.write.partitionBy("te xt#=1").parquet(str(tmp_path / "spark"))
    ours = {folder.name for folder in (tmp_path / "ours").iterdir() if folder.name != ".tidegate"}
    assert ours == {folder.name for folder in (tmp_path / "spark").iterdir() if folder.is_dir()}
    found = spark.read.schema(rows.schema).parquet(str(tmp_path / "ours"))
    as_spark_says = spark.read.schema(rows.schema).parquet(str(tmp_path / "spark"))
    assert counted(found, rows) == counted(as_spark_says, rows)
    empty_as_null = rows.withColumn("te xt#=1", F.expr("nullif(`te xt#=1`, '')"))
    assert counted(found, rows) == counted(empty_as_null, rows)


def test_plain_values_name_their_folders_as_spark_itself_does(spark: SparkSession, tmp_path: Path) -> None:
    rows = nasty(spark, [str(number) for number in range(40)]).select("day", "yes", "tiny", "id")
    write(FileSink("out", tmp_path / "ours", partition_by=["day", "yes", "tiny"]), rows)
    rows.write.partitionBy("day", "yes", "tiny").parquet(str(tmp_path / "spark"))
    ours, theirs = (
        {folder.relative_to(tmp_path / name) for folder in (tmp_path / name).glob("day=*/*/*")}
        for name in ("ours", "spark")
    )
    assert ours == theirs
    assert len(ours) > 10


def test_a_job_partitions_its_files_and_a_restart_repeats_none(place: Place) -> None:
    place.write({"day": "2026-11-21", "id": 1}, {"day": "2026-11-22", "id": 2}, {"day": "2026-11-21", "id": 3})

    def once() -> None:
        job = place.job()
        rows = place.source(job, "days", "day date, id long")
        sinks = [
            FileSink("csv", place.folder / "csv", format="csv", header=True, partition_by="day"),
            FileSink("text", place.folder / "text", format="text", select=[F.col("id").cast("string").alias("line")]),
        ]
        job.query("query", rows, sinks=sinks)
        run(job)

    once()
    place.write({"day": "2026-11-21", "id": 4})
    once()
    found = place.spark.read.option("header", True).csv(str(place.folder / "csv"), schema="id long, day date")
    assert sorted((str(row.day), row.id) for row in found.collect()) == [
        ("2026-11-21", 1),
        ("2026-11-21", 3),
        ("2026-11-21", 4),
        ("2026-11-22", 2),
    ]
    assert sorted(row.value for row in place.spark.read.text(str(place.folder / "text")).collect()) == list("1234")


def test_a_row_that_the_format_cannot_say_fails_its_epoch_and_shows_nothing(place: Place) -> None:
    place.write("one line")
    place.write("two\nlines")
    job = place.job()
    job.query("query", place.words(job), sinks=[FileSink("text", place.folder / "text", format="text")])
    error = error_of(lambda: run(job))
    assert error.code == "TG-RECORD-REFUSED"
    assert [row.value for row in place.spark.read.text(str(place.folder / "text")).collect()] == ["one line"]
