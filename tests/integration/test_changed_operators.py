"""A program whose stateful operators are others than those that its state was computed with is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, wait_until_finished
from tests.integration.test_restore import run_from
from tidegate import Job, SQLiteSink, uid

Program = Callable[[DataFrame], DataFrame]


def totals(
    place: Place,
    function: Callable[[str], Any] = F.sum,
    *,
    column: str = "n",
    named: str = "totals",
    before: Program = lambda rows: rows,
) -> Job:
    """One number by word, into a table."""
    job = place.job()
    rows = before(place.source(job, "events", "at timestamp, word string, n int"))
    found = uid(named, rows.groupBy("word").agg(function(column).alias("total")))
    table = SQLiteSink("table", place.folder / "out.db", table="totals", key="word")
    job.query("query", found, mode="update", sinks=[table])
    return job


def caught_up(job: Job, **options: Any) -> None:
    job.start(until="caught-up", **options).wait()


def test_a_sum_that_becomes_a_count_is_refused_at_a_plain_start(place: Place):
    """Their state has one schema: Spark adds 1 to 5."""
    place.write({"word": "sea", "n": 5})
    caught_up(totals(place))
    place.write({"word": "sea", "n": 7})
    error = error_of(lambda: caught_up(totals(place, F.count)))
    assert error.code == "TG-OPERATOR-CHANGED"
    assert "aggregate functions: sum(n)" in error.expected
    assert "aggregate functions: count(n)" in error.found
    assert "--allow-changed-operator totals" in error.next_step
    assert place.table("totals") == [("sea", 5)]
    caught_up(totals(place))
    assert place.table("totals") == [("sea", 12)], "the old program goes on"


def test_a_sum_that_becomes_a_count_is_refused_at_a_restore(place: Place):
    place.write({"word": "sea", "n": 5})
    handle = totals(place).start()
    wait_until_finished(handle, 0)
    path = handle.savepoint(place.folder / "saved")
    handle.stop()
    assert path is not None
    place.write({"word": "sea", "n": 7})
    error = error_of(lambda: run_from(totals(place, F.count), path))
    assert (error.code, "sum(n)" in error.expected, "count(n)" in error.found) == ("TG-OPERATOR-CHANGED", True, True)
    run_from(totals(place), path)
    assert place.table("totals") == [("sea", 12)]
