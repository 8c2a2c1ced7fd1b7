"""Values that are parsed while they are read: typed columns, and no record that does not parse is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.conftest import spark  # noqa: F401  # pyright: ignore[reportUnusedImport] (a fixture)
from tests.integration.place import Place, error_of, run
from tests.support.today import turn
from tidegate import CSV, JSON, Job, KafkaSource, SQLiteSink, Text, only_parsed
from tidegate.core.errors import Code
from tidegate.spark.sources.value_formats import ValueFormat
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import TopicRecord, make_topic, produce

SCHEMA = "id BIGINT, word STRING"
BAD = b'{"id": "x"}'


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:  # noqa: F811 (the fixture)
    return Place(tmp_path, spark)


def topic_of(broker: Broker, *values: bytes | None) -> str:
    topic = make_topic(broker.servers, 1)
    produce(broker.servers, topic, [TopicRecord(value, partition=0) for value in values])
    return topic


def words(first: int, end: int) -> list[bytes]:
    return [json.dumps({"id": number, "word": f"w{number}", "other": [1]}).encode() for number in range(first, end)]


def records_of(job: Job, broker: Broker, topic: str, value: ValueFormat) -> DataFrame:
    return job.source("records", KafkaSource(broker.servers, topics=[topic], max_rows=3, value=value))


def sink_of(place: Place, name: str = "words", **options: Any) -> SQLiteSink:
    return SQLiteSink(name, place.folder / "out.db", table=name, **options)


def run_words(place: Place, broker: Broker, topic: str, value: ValueFormat) -> None:
    job = place.job()
    rows = records_of(job, broker, topic, value).select("offset", "value.*")
    job.query("query", rows, sinks=[sink_of(place)])
    run(job)


def test_the_fields_of_values_are_columns_and_a_tombstone_has_none(place: Place, broker: Broker):
    topic = topic_of(broker, *words(0, 2), None, *words(2, 5))
    run_words(place, broker, topic, JSON(SCHEMA))
    assert place.table() == [(0, 0, "w0"), (1, 1, "w1"), (2, None, None), (3, 2, "w2"), (4, 3, "w3"), (5, 4, "w4")]


@pytest.mark.parametrize(
    ("value", "row"),
    [(CSV("day DATE, amount DECIMAL(5, 2)", delimiter=";"), ("2026-01-31", "1.50")), (Text(), ("2026-01-31;1.5",))],
)
def test_a_line_and_a_text_are_parsed_too(place: Place, broker: Broker, value: ValueFormat, row: tuple[str, ...]):
    topic = topic_of(broker, b"2026-01-31;1.5")
    job = place.job()
    records = records_of(job, broker, topic, value)
    rows = records.select("value") if isinstance(value, Text) else records.select("value.*")
    job.query("query", rows, sinks=[sink_of(place)])
    run(job)
    assert place.table() == [row]


@turn(0, of=2)
def test_a_value_that_does_not_parse_fails_its_epoch_and_a_mended_program_reads_the_same_epoch_again(
    place: Place, broker: Broker
):
    topic = topic_of(broker, *words(0, 4), BAD, *words(4, 6))
    error = error_of(lambda: run_words(place, broker, topic, JSON(SCHEMA)))
    assert error.catalogue_entry is Code.ROW_UNPARSED
    assert f"{topic}-0, offset 4" in error.where
    assert "Column(/id) changed from number to string" in error.found
    first = [(number, number, f"w{number}") for number in range(4)]
    assert place.table() == first[:3]
    run_words(place, broker, topic, JSON(SCHEMA, unparsed="null"))
    assert place.table() == [*first, (4, None, None), (5, 4, "w4"), (6, 5, "w5")]


def test_a_field_that_the_query_does_not_use_may_have_any_type(place: Place, broker: Broker):
    topic = topic_of(broker, *words(0, 2), b'{"id": "x", "word": "sea"}')
    job = place.job()
    job.query("query", records_of(job, broker, topic, JSON(SCHEMA)).select("value.word"), sinks=[sink_of(place)])
    run(job)
    assert place.table() == [("sea",), ("w0",), ("w1",)]


def test_values_that_do_not_parse_are_dead_letters_of_their_epoch(place: Place, broker: Broker):
    topic = topic_of(broker, *words(0, 2), BAD, b"\xff", *words(2, 4))
    job = place.job()
    rows = records_of(job, broker, topic, JSON(SCHEMA, unparsed="dead-letters"))
    job.query(
        "query",
        rows.select("value.*", "_tidegate_unparsed"),
        sinks=[sink_of(place)],
        dead_letters=sink_of(place, "dead"),
    )
    status = run(job)
    assert place.table() == [(number, f"w{number}") for number in range(4)]
    assert status.queries[0].dead_letters == 2
    letters = {(epoch, code, json.loads(row)["text"]) for _, _, epoch, code, _, row in place.table("dead")}
    label = Code.ROW_UNPARSED.label
    assert letters == {(0, label, BAD.decode()), (1, label, "\\xff")}


def test_with_state_a_second_query_writes_them_though_each_query_uses_other_fields(place: Place, broker: Broker):
    topic = topic_of(broker, *words(0, 3), BAD, b'{"id": 1, "word": 5}')
    job = place.job()
    rows = records_of(job, broker, topic, JSON(SCHEMA, unparsed="dead-letters"))
    counts = only_parsed(rows).groupBy("value.word").agg(F.count("*").alias("count"))
    job.query("query", counts, mode="update", sinks=[sink_of(place, key="word")])
    job.query("rest", rows.select("_tidegate_unparsed", "offset"), sinks=[], dead_letters=sink_of(place, "dead"))
    run(job)
    assert place.table() == [("w0", 1), ("w1", 1), ("w2", 1)]
    assert {json.loads(row)["text"] for *_, row in place.table("dead")} == {BAD.decode(), '{"id": 1, "word": 5}'}


def test_values_that_do_not_parse_cannot_be_lost_by_a_step_behind(place: Place, broker: Broker):
    job = place.job()
    rows = records_of(job, broker, topic_of(broker), JSON(SCHEMA, unparsed="dead-letters"))
    error = error_of(lambda: job.query("query", rows.select("value.*"), sinks=[sink_of(place)]))
    assert error.catalogue_entry is Code.OPTION_UNKNOWN
    assert "_tidegate_unparsed" in error.next_step


def test_a_format_by_its_name_is_refused_with_those_that_there_are(place: Place, broker: Broker):
    wrong: Any = "json"
    error = error_of(lambda: records_of(place.job(), broker, "topic", wrong))
    assert (error.found, "JSON(schema)" in error.expected) == ("'json'", True)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (JSON("id WRONG"), "WRONG"),
        (JSON(""), "none"),
        (JSON("names MAP<STRING, INT>"), "map<string,int>"),
        (JSON("inside STRUCT<x: BINARY>"), "binary"),
        (CSV("list ARRAY<INT>"), "array<int>"),
        (CSV("id INT", delimiter=";;"), "';;'"),
        (JSON("id INT", unparsed="refused"), "'refused'"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_format_that_cannot_be_is_refused_where_it_is_declared(
    place: Place, broker: Broker, value: ValueFormat, found: str
):
    error = error_of(lambda: records_of(place.job(), broker, "topic", value))
    assert found.lower() in error.found.lower()
    assert "source records" in error.where
