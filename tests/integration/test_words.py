"""Words into tables and files: run, stop, go on; several sinks from one evaluation."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.integration.place import Place, run
from tidegate import FileSink, JobEvent, JobStatus, SQLiteSink, happenings
from tidegate.testing.memory import MemorySink


def count_words(place: Place, *listeners: Callable[[JobEvent], object]) -> JobStatus:
    """The program of the story: counts into a keyed table and, as they change, into files."""
    job = place.job(listeners=listeners)
    counts = place.words(job).groupBy("word").count()
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    files = FileSink("files", place.folder / "out", format="json")
    job.query("query", counts, mode="update", sinks=[table, files])
    return run(job)


def test_a_second_run_goes_on_where_the_first_one_stopped(place: Place):
    place.write("sea", "sand", "sea")
    place.write("sea")
    first = count_words(place)
    assert place.table() == [("sand", 1), ("sea", 3)]
    place.write("sand", "wind")
    heard: list[JobEvent] = []
    second = count_words(place, heard.append, fail)

    assert place.table() == [("sand", 2), ("sea", 3), ("wind", 1)]
    changes = {epoch: sorted((row["word"], row["count"]) for row in rows) for epoch, rows in place.files().items()}
    assert changes == {0: [("sand", 1), ("sea", 2)], 1: [("sea", 3)], 2: [("sand", 2), ("wind", 1)]}
    assert [(each.queries[0].finished, each.queries[0].epochs) for each in (first, second)] == [(1, 2), (2, 1)]
    assert place.log("ledger/done") == place.log("spark/commits") == [0, 1, 2]
    done = [event.happening.epoch for event in heard if isinstance(event.happening, happenings.EpochDone)]
    assert done == [2]


def fail(_: JobEvent) -> None:
    """A listener cannot harm the job."""
    raise SystemExit(3)


def test_a_run_without_new_input_adds_nothing(place: Place):
    place.write("sea")
    count_words(place)
    again = count_words(place)
    assert place.table() == [("sea", 1)]
    assert (again.running, again.queries[0].epochs, again.queries[0].finished) == (False, 0, 0)


def witnessed(rows: DataFrame, evaluations: Path, *, deterministic: bool) -> DataFrame:
    """`rows` with a column `seen`, whose every evaluation leaves a line in a file."""

    def leave_a_line(word: str) -> str:
        descriptor = os.open(evaluations, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{word}\n".encode())
        os.close(descriptor)
        return word.upper()

    seen = F.udf(leave_a_line, "string")
    return rows.withColumn("seen", (seen if deterministic else seen.asNondeterministic())("word"))


@pytest.mark.parametrize("deterministic", [True, False], ids=["deterministic", "nondeterministic"])
def test_each_sink_gets_its_own_rows_from_one_evaluation(place: Place, deterministic: bool):
    evaluations = place.folder / "evaluations"
    place.write("sea", "sand", "wind")
    place.write("sea", "salt")
    job = place.job()
    rows = witnessed(place.words(job), evaluations, deterministic=deterministic)
    everything, again = MemorySink("everything"), MemorySink("again")
    s_words = SQLiteSink(
        "s-words", place.folder / "out.db", table="s_words", select=["seen"], where=F.col("seen") > "S"
    )
    lengths = FileSink(
        "lengths",
        place.folder / "out",
        format="json",
        select=["word", F.length("seen").alias("letters"), F.concat("seen", F.lit("!")).alias("loud")],
        where=F.col("word").isin("sea", "wind"),
    )
    nothing = MemorySink("nothing", where=F.lit(None).cast("boolean"))
    job.query("query", rows, sinks=[everything, s_words, lengths, nothing, again])
    status = run(job)

    written = ["sea", "sand", "wind", "sea", "salt"]
    assert Counter(evaluations.read_text().split()) == Counter(written), "one evaluation for each row, for all sinks"
    assert [row["word"] for row in everything.rows] == written
    assert again.rows == everything.rows
    assert place.table("s_words") == sorted((word.upper(),) for word in written)
    assert place.files() == {
        0: [{"word": "sea", "letters": 3, "loud": "SEA!"}, {"word": "wind", "letters": 4, "loud": "WIND!"}],
        1: [{"word": "sea", "letters": 3, "loud": "SEA!"}],
    }
    assert nothing.rows == []
    assert status.queries[0].rows == 5 + 5 + 3 + 0 + 5


def test_a_row_after_an_aggregation_is_evaluated_once_for_all_sinks(place: Place):
    """The dangerous place: two actions would run the stateful operator twice."""
    evaluations = place.folder / "evaluations"
    place.write("sea", "sand", "sea")
    place.write("sea")
    job = place.job()
    counts = witnessed(place.words(job).groupBy("word").count(), evaluations, deterministic=False)
    sinks = [
        MemorySink("one"),
        MemorySink("two", select=["seen", "count"]),
        MemorySink("three", where=F.col("count") > 1),
    ]
    job.query("query", counts, mode="update", sinks=sinks)
    run(job)
    assert Counter(evaluations.read_text().split()) == {"sea": 2, "sand": 1}
    assert sorted(row["count"] for row in sinks[0].rows) == [1, 2, 3]
    assert sorted(row["count"] for row in sinks[2].rows) == [2, 3]


def test_a_source_may_stand_twice_in_a_query(place: Place):
    place.write("sea")
    place.write("sand")
    job = place.job()
    words = place.words(job)
    sink = MemorySink("memory")
    job.query("query", words.unionByName(words.select(F.upper("word").alias("word"))), sinks=[sink])
    run(job)
    assert [row["word"] for row in sink.rows] == ["sea", "SEA", "sand", "SAND"]
