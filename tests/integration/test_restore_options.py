"""What a restore may change on the way, and what it says of a changed program before anything is touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, wait_until_finished
from tests.integration.test_restore import everything, run_from
from tidegate import Job, SQLiteSink


def grouping(place: Place, change: Callable[[DataFrame], DataFrame]) -> Job:
    """A job with one query, whose operators are what `change` makes of (word, n); the table takes any rows."""
    job = place.job()
    words = place.source(job, "words", "word string, n int")
    rows = change(words).select(F.to_json(F.struct("*")).alias("row"))
    job.query("query", rows, mode="update", sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    return job


def saved(place: Place, job: Job) -> Path:
    handle = job.start()
    wait_until_finished(handle, 0)
    path = handle.savepoint(place.folder / "saved")
    handle.stop()
    assert path is not None
    return path


COUNT: Callable[[DataFrame], DataFrame] = lambda words: words.groupBy("word").count()  # noqa: E731

CHANGED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "another aggregate": lambda words: words.groupBy("word").agg(F.avg("n").alias("mean")),
    "another key": lambda words: words.groupBy("n").count(),
    "another operator": lambda words: words.dropDuplicates(["word"]),
    "no operator": lambda words: words.select("word"),
}


@pytest.mark.parametrize(
    "change", [pytest.param(name, marks=() if name == "another aggregate" else pytest.mark.more) for name in CHANGED]
)
def test_operators_that_the_state_does_not_fit_are_refused_before_anything_is_touched(place: Place, change: str):
    place.write({"word": "sea", "n": 1})
    path = saved(place, grouping(place, COUNT))
    before = everything(place)
    error = error_of(lambda: run_from(grouping(place, CHANGED[change]), path))
    assert (error.code, "query query" in error.where) == ("TG-RESTORE-OPERATORS", True)
    assert everything(place) == before
    # What is not of the state may change.
    place.write({"word": "sea", "n": 2})
    run_from(grouping(place, lambda words: COUNT(words.where("n > 0")).withColumn("more", F.lit(1))), path)
    assert [row for (row,) in place.table()] == ['{"word":"sea","count":1}', '{"word":"sea","count":2,"more":1}']


@pytest.mark.more
def test_a_stateless_query_that_gets_an_operator_is_told_so_before_it_fails_in_its_first_epoch(place: Place):
    place.write({"word": "sea", "n": 1})
    path = saved(place, grouping(place, lambda words: words))
    error = error_of(lambda: run_from(grouping(place, COUNT), path))
    assert (error.code, error.found) == ("TG-RESTORE-OPERATORS", "0 (stateStoreSave)")
