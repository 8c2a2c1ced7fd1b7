"""Dead letters: a row that a sink cannot hold goes into another sink of the query, inside the same epoch."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run
from tidegate import FileSink, Job, SQLiteSink, only_parsed, parsed_or_dead
from tidegate.core.errors import Code


def job_with_dead_letters(place: Place, **options: Any) -> Job:
    """Words into a table by key, where a null key cannot stand, and into files, which take it."""
    job = place.job()
    word = F.when(F.col("word") != "poison", F.col("word")).alias("word")
    rows = place.words(job).withColumn("id", F.length("word"))
    table = SQLiteSink("table", place.folder / "out.db", table="t", key="word", select=[word, "id"])
    files = FileSink("files", place.folder / "files", format="json", select=["word"])
    dead = SQLiteSink("dead", place.folder / "dead.db", table="letters")
    job.query("query", rows, sinks=[table, files], dead_letters=dead, **options)
    return job


def letters(place: Place) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(place.folder / "dead.db")) as target:
        target.row_factory = sqlite3.Row
        return [dict(row) for row in target.execute("SELECT * FROM letters")]


def words_of(place: Place) -> list[str]:
    with closing(sqlite3.connect(place.folder / "out.db")) as target:
        return sorted(word for (word,) in target.execute("SELECT word FROM t"))


def words_in_files(place: Place) -> list[str]:
    found = [file.read_text() for file in (place.folder / "files").glob("*.json")]
    return sorted(json.loads(line)["word"] for text in found for line in text.splitlines())


def test_a_row_that_one_sink_refuses_is_a_dead_letter_of_its_epoch_and_the_other_sinks_get_it(place: Place):
    place.write("sea")
    place.write("sand", "poison", "wind")
    status = run(job_with_dead_letters(place))
    assert (status.queries[0].dead_letters, status.queries[0].rows) == (1, 8)
    assert words_of(place) == ["sand", "sea", "wind"]
    assert words_in_files(place) == ["poison", "sand", "sea", "wind"]
    [letter] = letters(place)
    assert json.loads(letter.pop("row")) == {"id": 6}
    assert "'word'" in letter.pop("reason")
    assert letter == {"query": "query", "sink": "table", "epoch": 1, "code": Code.RECORD_REFUSED.label}


def test_a_row_that_breaks_unique_goes_into_the_dead_letters_of_the_same_database(place: Place):
    with closing(sqlite3.connect(place.folder / "out.db")) as owner:
        owner.execute("CREATE TABLE words (word TEXT UNIQUE)")
    place.write("sea")
    place.write("sand", "sea")
    job = place.job()
    table = SQLiteSink("table", place.folder / "out.db", table="words", on_conflict="dead-letter")
    dead = SQLiteSink("dead", place.folder / "out.db", table="letters")
    job.query("query", place.words(job), sinks=[table], dead_letters=dead)
    run(job)
    assert place.table() == [("sand",), ("sea",)]
    reason, row = "UNIQUE constraint failed: words.word", '{"word":"sea"}'
    assert place.table("letters") == [("query", "table", 1, Code.ROW_CONFLICT.label, reason, row)]


def test_texts_that_do_not_parse_are_dead_letters_of_the_epoch_that_they_came_in(place: Place):
    place.write('{"id": 1, "name": "sea"}', '{"id": "x"}', "storm")
    job = place.job()
    rows = parsed_or_dead(place.words(job), "word", "id INT, name STRING")
    table = SQLiteSink("table", place.folder / "out.db", table="words")
    job.query("query", rows, sinks=[table], dead_letters=SQLiteSink("dead", place.folder / "dead.db", table="letters"))
    status = run(job)
    assert place.table() == [(1, "sea")]
    assert status.queries[0].dead_letters == 2
    assert [(each["sink"], each["code"]) for each in letters(place)] == [("", Code.ROW_UNPARSED.label)] * 2
    assert {json.loads(each["row"])["text"] for each in letters(place)} == {'{"id": "x"}', "storm"}


def test_with_state_a_second_query_writes_what_does_not_parse(place: Place):
    place.write("1,sea", "2,sea", "x,sea")
    job = place.job()
    rows = parsed_or_dead(place.words(job), "word", "id INT, name STRING", format="csv")
    totals = only_parsed(rows).groupBy("name").count()
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="name")
    job.query("query", totals, mode="update", sinks=[table])
    job.query("rest", rows, sinks=[], dead_letters=SQLiteSink("dead", place.folder / "dead.db", table="letters"))
    run(job)
    assert place.table() == [("sea", 2)]
    assert [json.loads(each["row"]) for each in letters(place)] == [{"text": "x,sea"}]


def test_texts_that_do_not_parse_cannot_be_lost_by_a_step_behind(place: Place):
    job = place.job()
    rows = parsed_or_dead(place.words(job), "word", "id INT, name STRING")
    sinks = [SQLiteSink("table", place.folder / "out.db", table="words")]
    for lost in (rows, rows.select("id"), rows.groupBy("name").count()):
        error = error_of(partial(job.query, "query", lost, sinks=sinks, mode="update"))
        assert (error.catalogue_entry, "only_parsed" in error.next_step) == (Code.OPTION_UNKNOWN, True)


@pytest.mark.parametrize(("max_dead", "is_told"), [(1, "2 of 3 rows"), (0.5, "2 of 3 rows"), (2, None), (0.9, None)])
def test_more_dead_letters_than_an_epoch_may_have_end_the_job_and_nothing_of_the_epoch_counts(
    place: Place, max_dead: float, is_told: str | None
):
    place.write("sand", "poison", "poison")
    job = job_with_dead_letters(place, max_dead=max_dead)
    if is_told is None:
        run(job)
        assert len(letters(place)) == 2
        return
    error = error_of(lambda: run(job))
    assert error.catalogue_entry is Code.DEAD_LETTERS_LIMIT
    assert is_told in error.found
    assert "sink 'table', column 'word'" in error.found
    assert (words_of(place), letters(place)) == ([], [])
