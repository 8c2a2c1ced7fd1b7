"""A row that a sink cannot take: the error that ends the job says which, where, and what to do, and is a task's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run
from tidegate import FileSink, Job, SQLiteSink, TwoPhaseSink
from tidegate.core.errors import Code
from tidegate.operate.reports import report_of


def job_into(place: Place, sink: TwoPhaseSink) -> Job:
    job = place.job()
    rows = place.words(job).withColumn("id", F.length("word"))
    job.query("query", rows, sinks=[sink])
    return job


def table(place: Place) -> SQLiteSink:
    keyed = F.when(F.col("word") != "poison\nhush", F.col("word"))
    return SQLiteSink("out", place.folder / "out.db", table="t", key="word", select=[keyed.alias("word"), "id"])


def lines(place: Place) -> FileSink:
    return FileSink("out", place.folder / "lines", format="text", select=["word"])


def folders(place: Place) -> FileSink:
    far = F.when(F.col("word") == "poison\nhush", F.lit("x" * 300)).otherwise(F.col("word"))
    return FileSink("out", place.folder / "days", format="json", partition_by="day", select=["id", far.alias("day")])


REFUSED: list[tuple[Callable[[Place], TwoPhaseSink], str, str, str]] = [
    (table, "word", "a null", "{word: None, id: 11}"),
    (lines, "word", "a line break", "{word: 'poison\\nhush'}"),
    (folders, "day", "a longer one", "{id: 11, day: 'xxx"),
]


@pytest.mark.parametrize(("sink", "column", "found", "row"), REFUSED, ids=["table", "lines", "folders"])
def test_a_refused_row_ends_the_job_with_its_own_error_whole(
    place: Place, sink: Callable[[Place], TwoPhaseSink], column: str, found: str, row: str
):
    place.write("sea")
    place.write("sand", "poison\nhush", "wind")
    error = error_of(lambda: run(job_into(place, sink(place))))
    assert error.catalogue_entry is Code.RECORD_REFUSED
    assert found in error.found
    assert {"sink 'out'", "query job/query", "epoch 1", f"column '{column}'"} <= set(error.where.split(", "))
    assert str(error.details["row"]).startswith(row)
    assert {"sink": "out", "epoch": 1, "column": column}.items() <= report_of(error).details.items()
    assert error.next_step
    assert place.log("ledger/done") == [0]


def test_a_refused_row_is_found_behind_many_others_in_one_file_of_the_sink(place: Place):
    """The sink writes its rows in slices: the row that is told is the row of the batch."""
    place.write(*(f"word-{number}" for number in range(40)), "poison\nhush")
    sink = FileSink("out", place.folder / "lines", format="text", max_file_rows=7, select=["word"])
    error = error_of(lambda: run(job_into(place, sink)))
    assert error.details["row"] == "{word: 'poison\\nhush'}"


def test_what_a_sink_raises_that_is_no_refusal_is_told_with_its_place(place: Place):
    place.write("sea")
    (place.folder / "lines").mkdir()
    sink = BrokenSink("out", place.folder / "lines", format="json")
    error = error_of(lambda: run(job_into(place, sink)))
    assert error.catalogue_entry is Code.EPOCH_FAILED
    assert error.found == "ZeroDivisionError: the sink's own\nfault of two lines"
    assert "sink 'out', query job/query, epoch 0, task 0" in error.where
    assert "its input comes again" in error.next_step


class BrokenSink(FileSink):
    """Fails in the task for a reason of its own."""

    def begin(self, attempt: object):
        raise ZeroDivisionError("the sink's own\nfault of two lines")
