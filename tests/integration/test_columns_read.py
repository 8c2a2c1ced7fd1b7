"""Which columns of a stream a query uses, so that the source need not build the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.sources.used_columns import UsedColumns
from tidegate.spark.columns_read import columns_read

BOTH, VALUE, TIME = {"timestamp", "value"}, {"value"}, {"timestamp"}


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


QUERIES: dict[str, tuple[Callable[[DataFrame], DataFrame], list[set[str]]]] = {
    "all": (lambda rows: rows, [BOTH]),
    "one is chosen": (lambda rows: rows.select("value"), [VALUE]),
    "columns are added, then left out": (
        lambda rows: rows.withColumn("double", F.col("value") * 2).withColumn("day", F.dayofyear("timestamp")),
        [BOTH],
    ),
    "an added one is chosen": (
        lambda rows: (
            rows.withColumn("double", F.col("value") * 2).withColumn("four", F.col("double") * 2).select("four")
        ),
        [VALUE],
    ),
    "a condition": (lambda rows: rows.where("value > 1").select(F.lit(1)), [VALUE]),
    "a condition alone": (lambda rows: rows.where("value > 1"), [BOTH]),
    "another name": (lambda rows: rows.alias("r").select("r.value"), [VALUE]),
    "groups": (lambda rows: rows.groupBy("value").count(), [VALUE]),
    "a watermark and windows": (
        lambda rows: rows.withWatermark("timestamp", "1 minute").groupBy(F.window("timestamp", "1 minute")).count(),
        [TIME],
    ),
    "a union of all": (lambda rows: rows.union(rows), [BOTH, BOTH]),
    "a union of one": (lambda rows: rows.union(rows).select("value"), [VALUE, VALUE]),
    "a join": (
        lambda rows: rows.alias("a").join(rows.alias("b"), F.expr("a.value = b.value")).select("b.timestamp"),
        [VALUE, BOTH],
    ),
    "duplicates": (lambda rows: rows.dropDuplicates(["value"]).select("value"), [VALUE]),
    "a function in Python": (lambda rows: rows.select(F.udf(str, "string")("value")), [VALUE]),
    "a function over all": (lambda rows: rows.mapInArrow(unchanged, rows.schema), [BOTH]),
    "a function over one": (lambda rows: rows.select("value").mapInArrow(unchanged, "value long"), [VALUE]),
}


@pytest.mark.parametrize(("query", "used"), QUERIES.values(), ids=QUERIES)
def test_a_column_that_no_expression_names_is_not_used(
    spark: SparkSession, query: Callable[[DataFrame], DataFrame], used: list[set[str]]
):
    wanted = tuple(UsedColumns(frozenset(each)) for each in used)
    assert columns_read(spark, query(spark.readStream.format("rate").load())) == wanted


def test_a_table_beside_the_stream_has_its_place(spark: SparkSession):
    table = spark.createDataFrame([(1, "one")], "value long, name string")
    joined = spark.readStream.format("rate").load().join(table, "value").select("name")
    stream, _ = columns_read(spark, joined)
    assert stream == UsedColumns(frozenset(VALUE))


STRUCTS: dict[str, tuple[Callable[[DataFrame], DataFrame], UsedColumns]] = {
    "its fields": (lambda rows: rows.select("value.id"), UsedColumns(frozenset(), {"value": frozenset({"id"})})),
    "one of all": (
        lambda rows: rows.select("value.*").select(F.col("id") + 1),
        UsedColumns(frozenset(), {"value": frozenset({"id"})}),
    ),
    "a field of a field": (
        lambda rows: rows.where("value.id > 1").select("value.inside.x", "key"),
        UsedColumns(frozenset({"key"}), {"value": frozenset({"id", "inside"})}),
    ),
    "a field, and the whole": (lambda rows: rows.select("value.id", "value"), UsedColumns(frozenset({"value"}))),
    "a field, and the whole is compared": (
        lambda rows: rows.where("value IS NOT NULL").select("value.id"),
        UsedColumns(frozenset({"value"})),
    ),
    "groups by a field": (
        lambda rows: rows.groupBy("value.id").count(),
        UsedColumns(frozenset(), {"value": frozenset({"id"})}),
    ),
}


@pytest.mark.parametrize(("query", "used"), STRUCTS.values(), ids=STRUCTS)
def test_of_a_struct_only_the_fields_that_are_named_are_used(
    spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame], used: UsedColumns
):
    schema = "key string, value struct<id: bigint, name: string, inside: struct<x: int, y: int>>"
    assert columns_read(spark, query(spark.readStream.schema(schema).json(str(tmp_path)))) == (used,)


def test_two_uses_of_a_source_are_used_together():
    one, two = UsedColumns(frozenset({"key"}), {"value": frozenset({"id"})}), UsedColumns(frozenset({"value"}))
    assert one | one == one
    assert one | two == UsedColumns(frozenset({"key", "value"}))
    three = UsedColumns(frozenset(), {"value": frozenset({"name"})})
    assert one | three == UsedColumns(frozenset({"key"}), {"value": frozenset({"id", "name"})})
