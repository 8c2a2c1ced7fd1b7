"""What a standby asks again when it takes over: nothing of its declaration is older than that of an ordinary start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from tests.integration.place import Place
from tests.support.today import turn
from tidegate import FileSource, Job, SQLiteSink
from tidegate.spark.old_declaration import Again, Unanswerable, ask_again, tables_again


def differs(job: Job) -> str | None:
    """What a standby with this declaration finds now."""
    declared = job._declared()

    def questions() -> Iterator[Again]:
        yield from declared.asked
        for each in declared.queries:
            yield partial(tables_again, each.rows, each.uid)

    return ask_again(questions())


def sink(place: Place) -> SQLiteSink:
    return SQLiteSink("table", place.folder / "out.db", table="words")


def with_query(place: Place, rows: DataFrame, job: Job) -> Job:
    job.query("query", rows, sinks=[sink(place)])
    return job


def in_day(place: Place, day: str) -> None:
    (place.input / f"day={day}").mkdir()
    (place.input / f"day={day}" / "1.json").write_text(json.dumps({"word": "sea"}) + "\n")


@pytest.mark.parametrize("made", ["by the job", "by the program"])
def test_columns_that_come_from_folders_are_asked_again(place: Place, made: str):
    in_day(place, "1")
    job = place.job()
    path, schema = str(place.input), "word string"
    stream = place.spark.readStream.format("json").schema(schema).load(path)
    rows = job.source("words", FileSource(path, format="json", schema=schema) if made == "by the job" else stream)
    with_query(place, rows, job)
    assert differs(job) is None
    in_day(place, "2")
    assert differs(job) is None, "the same columns"
    in_day(place, "first")
    assert "source words: its columns have changed" in (differs(job) or "")


@turn(0, of=2)
def test_a_schema_that_the_first_start_has_found_holds_for_a_standby_that_was_declared_before_it(place: Place):
    def source(job: Job) -> DataFrame:
        return job.source("words", FileSource(str(place.input), format="json"))

    place.write({"word": "sea"})
    early = place.job()
    with_query(place, source(early), early)
    place.write({"word": "sea", "count": 1})
    first = place.job()
    with_query(place, source(first), first).run(until="caught-up")
    assert "its columns have changed" in (differs(early) or "")
    late = place.job()
    with_query(place, source(late), late)
    assert differs(late) is None


@turn(1, of=2)
def test_files_of_a_table_beside_the_stream_are_listed_again(place: Place):
    spark, folder = place.spark, str(place.folder / "names")
    spark.range(1).selectExpr("'sea' AS word").write.parquet(folder)
    job = place.job()
    names = spark.read.parquet(folder)
    with_query(place, place.words(job).join(names, "word"), job)
    place.write("sea", "lake")
    spark.range(1).selectExpr("'lake' AS word").write.mode("append").parquet(folder)
    assert differs(job) is None
    job.run(until="caught-up")
    assert sorted(place.table()) == [("lake",), ("sea",)]


def test_tables_in_subqueries_count_and_one_that_cannot_be_asked_again_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    spark = place.spark
    job = place.job()
    place.words(job).createOrReplaceTempView("words")
    spark.range(1).selectExpr("'sea' AS word").write.mode("overwrite").saveAsTable("standby_names")
    try:
        chosen = spark.sql("SELECT word FROM words WHERE word IN (SELECT word FROM standby_names)")
        with_query(place, chosen, job)
        assert differs(job) is None, "its files are listed again"
    finally:
        spark.sql("DROP TABLE standby_names")

    class Unknown:
        """As a leaf of another class."""

        def __getattr__(self, name: str) -> object:
            return lambda *_: "CatalogTable" if name == "getSimpleName" else self

    monkeypatch.setattr("tidegate.spark.old_declaration._leaves", lambda _: iter([Unknown()]))
    with pytest.raises(Unanswerable, match="CatalogTable"):
        tables_again(chosen, "query")


def test_settings_of_a_file_are_read_again(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "tidegate.toml"
    file.write_text('stop_timeout = "1s"\n')
    monkeypatch.setenv("TIDEGATE_CONFIG", str(file))
    job = place.job()
    with_query(place, place.words(job), job)
    assert differs(job) is None
    file.write_text('stop_timeout = "2s"\n')
    assert differs(job) == "settings have changed: stop_timeout"
