"""Types that no sink can write, and names that stand twice, are refused before a query starts, by column and remedy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pyspark.sql.types
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType, UserDefinedType

from tests.integration.place import Place, error_of, run, setting
from tidegate import FileSink, PrintSink, SQLiteSink, TidegateError
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.sinks.kafka.check import _KafkaCheck
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.value_table import TABLE, SparkType, Target
from tidegate.spark.projection import sink_schema
from tidegate.spark.row_types import KINDS
from tidegate.testing.contract import IDENTITY

ABSTRACT = {
    *("DataType", "AtomicType", "NumericType", "IntegralType", "FractionalType", "DatetimeType", "AnyTimeType"),
    *("AnsiIntervalType", "SpatialType", "UserDefinedType", "StructField"),
}


def test_every_type_of_sparks_stands_in_the_table() -> None:
    classes = {
        name
        for name, each in vars(pyspark.sql.types).items()
        if inspect.isclass(each) and issubclass(each, DataType) and not issubclass(each, UserDefinedType)
    }
    assert classes - ABSTRACT <= KINDS.keys()
    assert set(TABLE) == set(SparkType)
    assert all(set(cells) == set(Target) for cells in TABLE.values())


NOWHERE = {
    "variant": ("parse_json('1')", "F.to_json"),
    "interval day": ("INTERVAL '1' DAY", '.cast("string")'),
    "interval month": ("INTERVAL '1' MONTH", '.cast("string")'),
    "interval": ("make_interval(1, 2, 3)", '.cast("string")'),
    "void": ("null", "cast it to the type"),
    "geometry(0)": ("ST_GeomFromWKB(X'0101000000000000000000f03f0000000000000040')", "ST_AsBinary"),
    "geography(4326)": ("ST_GeogFromWKB(X'0101000000000000000000f03f0000000000000040')", "ST_AsBinary"),
    "struct<>": ("struct()", "give the struct a field"),
}
PLACES: dict[str, tuple[str, str]] = {
    "itself": ("{}", "v"),
    "array": ("array({})", "v[]"),
    "struct": ("named_struct('f', {})", "v.f"),
    "map value": ("map(1, {})", "v.value"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", NOWHERE)
def test_what_no_sink_writes_is_named_with_its_place_and_the_way_on(spark: SparkSession, kind: str, place: str) -> None:
    expression, remedy = NOWHERE[kind]
    nested, path = PLACES[place]
    rows = spark.sql(f"SELECT 1 AS id, {nested.format(expression)} AS v")
    error = error_of(lambda: sink_schema(rows, PrintSink("out"), "query q, sink out"))
    assert (error.code, error.where) == ("TG-SCHEMA-MISMATCH", "query q, sink out")
    assert error.found.startswith(f"{path!r} is {kind}")
    assert remedy in error.next_step


def test_a_map_without_types_is_refused_for_its_key_and_its_value(spark: SparkSession) -> None:
    error = error_of(lambda: sink_schema(spark.sql("SELECT map() AS v"), PrintSink("out"), "here"))
    assert [each.found for each in error.violations] == ["'v.key' is void", "'v.value' is void"]
    assert "map<string,int>" in error.violations[0].next_step


TWICE: dict[str, tuple[Callable[[SparkSession], DataFrame], list[object] | None]] = {
    "two columns": (lambda spark: spark.range(1).select("id", F.lit("x").alias("id")), None),
    "two selected columns": (lambda spark: spark.range(1), ["id", "id"]),
    "two fields": (lambda spark: spark.sql("SELECT named_struct('id', 1, 'id', 2) AS v"), None),
    "two fields in a map": (lambda spark: spark.sql("SELECT map(1, array(named_struct('id', 1, 'id', 2))) AS v"), None),
}


@pytest.mark.parametrize("case", TWICE)
def test_a_name_that_stands_twice_is_refused_at_the_start(spark: SparkSession, case: str) -> None:
    make, select = TWICE[case]
    error = error_of(lambda: sink_schema(make(spark), PrintSink("out", select=select), "here"))
    assert (error.code, error.found) == ("TG-SCHEMA-MISMATCH", "'id' more than once")
    assert "rename" in error.next_step


def found_by(sink: TwoPhaseSink, rows: DataFrame) -> list[TidegateError]:
    return [each for each in sink.check(plan_of(sink, rows)) if each.code == "TG-SCHEMA-MISMATCH"]


def plan_of(sink: TwoPhaseSink, rows: DataFrame) -> SinkPlan:
    schema = sink_schema(rows, sink, "here")
    return SinkPlan(identity=IDENTITY, schema=schema, mode="append", local_master=True, read_journal=lambda _: ())


def test_names_that_differ_in_case_are_refused_where_the_reader_takes_them_for_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    with setting(spark, "spark.sql.caseSensitive", "true"):
        columns = spark.sql("SELECT 1 AS a, 2 AS A")
        fields = spark.sql("SELECT array(named_struct('a', 1, 'A', 2)) AS v")
        sqlite, files = SQLiteSink("out", tmp_path / "t.db", table="t"), FileSink("out", tmp_path / "out")
        assert "several columns" in found_by(sqlite, columns)[0].found
        assert "several columns" in found_by(files, columns)[0].found
        assert "several fields of 'v[]'" in found_by(files, fields)[0].found
        assert found_by(PrintSink("out"), columns) == found_by(PrintSink("out"), fields) == []


KEYS = {
    "float": "CAST(1 AS FLOAT)",
    "double": "CAST(1 AS DOUBLE)",
    "struct": "named_struct('f', 1)",
    "array": "array(1)",
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_that_is_no_text_and_has_no_one_text_is_refused_alike_in_all_json(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    rows = spark.sql(f"SELECT map({KEYS[kind]}, 'x') AS v")
    kafka = _KafkaCheck(KafkaSink("out", "none:1", topic="t"), plan_of(PrintSink("out"), rows)).rows()
    found = [found_by(sink, rows) for sink in (FileSink("out", tmp_path / "out", format="json"), PrintSink("out"))]
    for (error,) in [*found, list(kafka)]:
        assert error.found.startswith("'v.key' is ")
        assert "F.map_entries" in error.next_step
    assert found_by(FileSink("out", tmp_path / "out"), rows) == []


class Point(UserDefinedType):
    """Of a program's own; Spark stores it as a struct."""

    @classmethod
    def sqlType(cls) -> StructType:  # noqa: N802  Spark's name
        return StructType().add("x", "double").add("y", "double")

    @classmethod
    def module(cls) -> str:
        return __name__


def test_a_type_of_the_programs_own_counts_as_what_spark_stores(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([], StructType().add("at", Point()))
    assert found_by(FileSink("out", tmp_path / "out", format="json"), rows) == []
    (error,) = found_by(SQLiteSink("out", tmp_path / "t.db", table="t"), rows)
    assert "F.to_json" in error.next_step


def test_a_job_with_a_variant_does_not_start_and_with_its_json_does(place: Place) -> None:
    place.write("a")
    sink = FileSink("out", place.folder / "out", format="json")
    rows = lambda job: place.words(job).select(F.expr("parse_json(concat('{\"a\":\"', word, '\"}'))").alias("v"))  # noqa: E731
    job = place.job()
    job.query("query", rows(job), sinks=[sink])
    error = error_of(lambda: run(job))
    assert "'v' is variant" in str(error)
    assert not (place.folder / "out").exists()
    job = place.job("again")
    job.query("query", rows(job).select(F.to_json("v").alias("v")), sinks=[sink])
    run(job)
    assert place.files() == {0: [{"v": '{"a":"a"}'}]}
