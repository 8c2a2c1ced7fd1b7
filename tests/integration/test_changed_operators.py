"""A program whose stateful operators are others than those that its state was computed with is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, wait_until_finished
from tests.support.logged import told
from tests.support.today import turn
from tidegate import Job, PrintSink, SQLiteSink, uid
from tidegate.checkpoints.done_epoch import fingerprints_in_force
from tidegate.core.ledger import START
from tidegate.core.records import Start, decode, encode
from tidegate.savepoints.folder import open_savepoint
from tidegate.storages.local.storage import LocalStorage


def totals(place: Place, function: Callable[[str], Any] = F.sum) -> Job:
    """One number by word, into a table."""
    job = place.job()
    rows = place.source(job, "events", "at timestamp, word string, n int")
    found = uid("totals", rows.groupBy("word").agg(function("n").alias("total")))
    table = SQLiteSink("table", place.folder / "out.db", table="totals", key="word")
    job.query("query", found, mode="update", sinks=[table])
    return job


def caught_up(job: Job, **options: Any) -> None:
    job.start(until="caught-up", **options).wait()


def run_from(job: Job, path: Path, **options: Any) -> None:
    caught_up(job, savepoint=path, **options)


def saved(place: Place, job: Job) -> Path:
    handle = job.start()
    wait_until_finished(handle, 0)
    path = handle.savepoint(place.folder / "saved")
    handle.stop()
    assert path is not None
    return path


@turn(0, of=2)
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
    path = saved(place, totals(place))
    place.write({"word": "sea", "n": 7})
    error = error_of(lambda: run_from(totals(place, F.count), path))
    assert (error.code, "sum(n)" in error.expected, "count(n)" in error.found) == ("TG-OPERATOR-CHANGED", True, True)
    run_from(totals(place), path)
    assert place.table("totals") == [("sea", 12)]


@turn(0, of=2)
def test_what_was_accepted_needs_no_permission_again_and_the_old_program_is_then_another(
    place: Place, caplog: pytest.LogCaptureFixture
):
    place.write({"word": "sea", "n": 5})
    caught_up(totals(place))
    place.write({"word": "sea", "n": 7})
    with caplog.at_level(logging.WARNING, logger="tidegate"):
        caught_up(totals(place, F.count), allow_changed_operators=["totals"])
    assert [text for text in told(caplog) if text.endswith("sum(n) -> count(n); accepted")]
    assert place.table("totals") == [("sea", 6)], "5 and one row more: that was wanted"
    caught_up(totals(place, F.count))
    error = error_of(lambda: caught_up(totals(place)))
    assert ("count(n)" in error.expected, "sum(n)" in error.found) == (True, True)
    assert place.log("ledger/operators") == [1]


def test_state_that_spark_cannot_read_is_refused_before_it_is_accepted(place: Place):
    """An average keeps two numbers: after the acceptance the program could go neither on nor back."""
    place.write({"word": "sea", "n": 5})
    caught_up(totals(place))
    other = totals(place, lambda column: F.avg(column).cast("long"))
    error = error_of(lambda: caught_up(other, allow_changed_operators=["totals"]))
    assert error.code == "TG-RESTORE-OPERATORS"
    assert place.log("ledger/operators") == []
    caught_up(totals(place))


@turn(0, of=2)
def test_an_accepted_restore_goes_on_without_permission_and_its_checkpoints_say_the_new_program(place: Place):
    place.write({"word": "sea", "n": 5})
    path = saved(place, totals(place))
    place.write({"word": "sea", "n": 7})
    run_from(totals(place, F.count), path, allow_changed_operators=["totals"])
    assert place.table("totals") == [("sea", 6)]
    run_from(totals(place, F.count), path)  # started again: from its own checkpoint
    caught_up(totals(place, F.count))
    found = fingerprints_in_force(LocalStorage(place.query().with_name("g2")))
    assert found is not None
    (now,) = found
    assert now.compared["aggregate functions"] == "count(n)"
    second = saved(place, totals(place, F.count))
    (query,) = open_savepoint(second).record.queries
    assert query.done.fingerprints == (now,)


def test_an_operator_that_does_not_exist_cannot_be_allowed(place: Place):
    error = error_of(lambda: totals(place).start(allow_changed_operators=["total"]))
    assert (error.code, error.found, "totals" in error.expected) == ("TG-OPERATOR-CHANGED", "total", True)


def test_a_checkpoint_of_an_older_release_takes_the_fingerprints_of_its_next_start(
    place: Place, caplog: pytest.LogCaptureFixture
):
    place.write({"word": "sea", "n": 5})
    caught_up(totals(place))
    start = place.query() / START
    older = msgspec.structs.replace(decode(Start, start.read_bytes(), ""), fingerprints=None)
    start.write_bytes(encode(older))
    with caplog.at_level(logging.WARNING, logger="tidegate"):
        caught_up(totals(place))
    assert [text for text in told(caplog) if "from this start on it does: totals: aggregation (word) (sum(n))" in text]
    assert error_of(lambda: caught_up(totals(place, F.count))).code == "TG-OPERATOR-CHANGED"


def test_a_start_names_an_operator_without_a_uid_with_the_line_to_add(place: Place, caplog: pytest.LogCaptureFixture):
    place.write({"word": "sea", "n": 5})
    job = place.job()
    rows = place.source(job, "events", "at timestamp, word string, n int").groupBy("word").agg(F.sum("n").alias("sum"))
    job.query("query", rows, mode="update", sinks=[PrintSink("print")])
    with caplog.at_level(logging.WARNING, logger="tidegate"):
        caught_up(job)
    (text,) = [text for text in told(caplog) if "has no uid" in text]
    assert text.endswith('add behind it: rows = tidegate.uid("query-aggregation", rows)')
