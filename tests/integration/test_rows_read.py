"""How many rows the sources of a query gave in each epoch, as the history tells it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.place import Place, run
from tests.support.today import turn
from tidegate import PrintSink, RateSource, SQLiteSink, operate

WORDS = (("sea", "sand", "wind"), ("sea", "sea"), ("tide",))


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    place = Place(tmp_path, spark)
    for words in WORDS:
        place.write(*words)
    return place


def read(place: Place) -> list[int | None]:
    """The rows that the epochs have read, the oldest first."""
    return [each.read for each in reversed(operate.open(place.checkpoints, "job").epochs())]


def test_each_row_of_a_file_counts_whether_it_comes_out_or_not(place: Place):
    job = place.job()
    seas = place.words(job).where("upper(word) = 'SEA'")
    job.query("query", seas, sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    run(job)
    assert place.table() == [("sea",)] * 3
    assert read(place) == [3, 2, 1]
    assert operate.open(place.checkpoints, "job").totals().queries["query"].read == 6


@turn(2, of=3)
def test_rows_that_the_reader_itself_leaves_out_do_not_count(place: Place):
    """Spark hands a plain comparison to the reader of the files."""
    assert read_of(place, lambda words: words.where("word = 'sea'")) == [1, 2, 0]


@turn(1, of=3)
def test_rows_of_a_table_beside_the_stream_do_not_count(place: Place, spark: SparkSession):
    (place.folder / "table").mkdir()
    (place.folder / "table" / "rows.json").write_text('{"word": "sea"}\n{"word": "tide"}\n{"word": "moon"}\n')
    table = spark.read.json(str(place.folder / "table"))
    assert read_of(place, lambda words: words.join(F.broadcast(table), "word")) == [3, 2, 1]


@turn(2, of=3)
def test_with_state_between_source_and_sink_the_input_counts(place: Place):
    assert read_of(place, lambda words: words.groupBy("word").count(), mode="update") == [3, 2, 1]


@turn(3, of=3)
def test_a_source_that_is_read_twice_counts_twice(place: Place):
    assert read_of(place, lambda words: words.union(words)) == [6, 4, 2]


@turn(1, of=3)
def test_the_rows_of_a_source_that_spark_generates_count(place: Place):
    job = place.job()
    numbers = job.source("numbers", RateSource(rowsPerSecond=50))
    job.query("query", numbers.where("value < 0"), sinks=[PrintSink("nothing")])
    handle = job.start()
    while not any(read(place)):
        handle.wait(0.2)
    handle.stop()
    assert sum(each or 0 for each in read(place)) % 50 == 0


def read_of(
    place: Place, make: Callable[[DataFrame], DataFrame], mode: Literal["append", "update"] = "append"
) -> list[int | None]:
    """What the epochs of a query have read that is made of the words."""
    job = place.job()
    key = "word" if mode == "update" else None
    sink = SQLiteSink("table", place.folder / "out.db", table="words", key=key)
    job.query("query", make(place.words(job)), sinks=[sink], mode=mode)
    run(job)
    return read(place)
