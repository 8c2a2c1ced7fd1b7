"""Dead letters: a row that a sink cannot hold goes into another sink of the query, inside the same epoch."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run
from tidegate import FileSink, Job, SQLiteSink
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
    run(job_with_dead_letters(place))
    assert words_of(place) == ["sand", "sea", "wind"]
    assert words_in_files(place) == ["poison", "sand", "sea", "wind"]
    [letter] = letters(place)
    assert json.loads(letter.pop("row")) == {"id": 6}
    assert "'word'" in letter.pop("reason")
    assert letter == {"query": "query", "sink": "table", "epoch": 1, "code": Code.RECORD_REFUSED.label}


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
