"""Values that Spark computes arrive as they are, through a real job; what a row cannot say ends it by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from tests.contract.value_sinks import SINKS, cycled, is_taken, of_text
from tests.contract.values import all_edges, expected, fields_of, mapped, neutral, same
from tests.integration.place import Place, error_of, run, setting
from tidegate import FileSink, SQLiteSink

YEARS = "timestamp'9999-12-31 23:59:59.999999', timestamp_micros(9223372036854775807), timestamp'0001-01-01 00:00:00'"


def test_times_of_any_year_and_keys_that_are_no_text_arrive_in_a_zone_west_of_utc(place: Place) -> None:
    place.write("a")
    with setting(place.spark, "spark.sql.session.timeZone", "America/Los_Angeles"):
        job = place.job()
        rows = place.words(job).select(
            F.expr(f"array({YEARS})").alias("times"),
            F.expr("date_add(date'9999-12-31', 1)").alias("day"),
            F.expr("map(1.50BD, CAST(0.1 AS FLOAT))").alias("price"),
        )
        files = FileSink("json", place.folder / "out", format="json")
        parquet = FileSink("parquet", place.folder / "parquet", partition_by="day")
        table = SQLiteSink("table", place.folder / "out.db", table="days", select=["day"])
        job.query("query", rows, sinks=[files, parquet, table])
        run(job)
        by_spark = place.spark.read.schema("times array<timestamp>, day date").json(str(place.folder / "out"))
        of_parquet = place.spark.read.schema("times array<timestamp>, day date").parquet(str(place.folder / "parquet"))
        as_numbers = ["transform(times, t -> unix_micros(t))", "unix_date(day)"]
        assert by_spark.selectExpr(*as_numbers).collect() == of_parquet.selectExpr(*as_numbers).collect()
    (row,) = place.files()[0]
    assert row == {
        "times": ["+10000-01-01T07:59:59.999999Z", "+294247-01-10T04:00:54.775807Z", "0001-01-01T07:52:58.000000Z"],
        "day": "+10000-01-01",
        "price": {"1.50": 0.1},
    }
    assert place.table("days") == [("+10000-01-01",)]


def test_a_record_that_is_not_utf8_ends_the_job_by_name_and_with_replace_it_arrives(place: Place) -> None:
    place.write("a")
    text = F.expr("CAST(X'61ff' AS STRING)").alias("text")
    job = place.job()
    job.query("query", place.words(job).select(text), sinks=[FileSink("out", place.folder / "out", format="csv")])
    error = error_of(lambda: run(job))
    assert error.code == "TG-RECORD-REFUSED"
    assert "UTF-8" in error.expected
    assert 'invalid_text="replace"' in error.next_step
    job = place.job()
    sink = FileSink("out", place.folder / "out", format="csv", invalid_text="replace")
    job.query("query", place.words(job).select(text), sinks=[sink])
    run(job)
    assert _text_in(place.folder / "out") == '"a�"\n'


def _text_in(folder: Path) -> str:
    (file,) = folder.glob("*.csv")
    return file.read_text("utf-8")


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "Parquet": {"format": "parquet"},
    "JSON": {"format": "json"},
    "CSV": {"format": "csv", "header": True, "escape": '"', "multiLine": True, "lineSep": "\n", "nullValue": "\\0"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_spark_reads_every_type_in_every_container_as_it_was_written(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    sink = SINKS[name]
    cells = all_edges(partial(is_taken, sink))
    columns = {f"c{number}": cell for number, cell in enumerate(cells.values())}
    assert cycled(sink, columns, tmp_path) is None
    seen = (lambda kind: kind) if name == "Parquet" else seen_by_spark
    kinds = {column: seen(kind) for column, (kind, _) in columns.items()}
    schema = from_arrow_schema(pa.schema([("id", pa.int64()), *kinds.items()]))
    read = spark.read.schema(schema).options(**OPTIONS[name]).format(OPTIONS[name]["format"])
    table = read.load(str(tmp_path / "out")).orderBy("id").toArrow()
    wrong: dict[str, Any] = {}
    for cell, (column, (kind, values)) in zip(cells, columns.items(), strict=True):
        right = [expected(kind, value, replace=False) for value in values]
        found = neutral(kinds[column], table.column(column).combine_chunks())
        found = [mapped(kind, value, of_what_is_a_text) for value in found]
        wrong |= {} if same(right, found) else {cell: (right, found)}
    assert wrong == {}


def seen_by_spark(kind: Any) -> pa.DataType:
    """What Spark is told to read from JSON and CSV: it has no times of day there, and keys are texts."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, seen_by_spark(field.type)) for field in fields_of(kind)])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), seen_by_spark(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(seen_by_spark(kind.value_type))
    return pa.string() if pa.types.is_time(kind) else kind


def of_what_is_a_text(kind: pa.DataType, value: Any) -> Any:
    return of_text(kind, value) if isinstance(value, str) else value
