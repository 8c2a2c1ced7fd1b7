"""The state in a savepoint is read by whoever has its folder: without the job, in whatever session."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of
from tests.integration.test_restore import event, saved
from tests.support.today import turn
from tidegate import FileSink, Job, SavedState, read_savepoint
from tidegate.checkpoints.spark_layout import is_state
from tidegate.savepoints.folder import open_savepoint, verify
from tidegate.spark import session
from tidegate.submit.masters import Master

WORDS = [f"word{number:02d}" for number in range(12)]


def two_counts(place: Place, **settings: str) -> Job:
    """A query with two stateful operators: each word once in ten seconds, then how many of them."""
    job = place.job(parallelism="3", **settings)
    events = place.source(job, "events", "at timestamp, word string").withWatermark("at", "5 seconds")
    once = events.dropDuplicates(["word", "at"])
    in_windows = once.groupBy(F.window("at", "10 seconds"), "word")
    n, letters, twos = F.count("*").alias("n"), F.sum(F.length("word")), F.sum(F.lit(2))
    sums = in_windows.agg(n, letters.alias("letters"), twos.alias("twos")).select("word", "n", "letters", "twos")
    job.query("counts", sums, sinks=[FileSink("files", place.folder / "out", format="json")])
    return job


def rows_of(state: SavedState, operator: int, **given: Any) -> list[Any]:
    return state.state("counts", operator=operator, **given).selectExpr("key.*", "value.*", "partition_id").collect()


@turn(1, of=2)
@pytest.mark.parametrize("backend", ["rocksdb", pytest.param("hashmap", marks=pytest.mark.more)])
def test_state_is_read_long_after_the_job_and_where_it_was_moved_to(place: Place, backend: str):
    place.write(*(event("01", word) for word in WORDS), event("01", WORDS[0]))
    path = saved(place, two_counts(place, state_backend=backend))
    shutil.rmtree(place.checkpoints)
    moved = path.rename(place.folder / "moved")
    found = read_savepoint(moved)
    assert [(table.query, table.operator, table.store) for table in found.tables] == [
        ("counts", 0, "default"),
        ("counts", 1, "default"),
    ]
    by_kind = {table.kind: table.operator for table in found.tables}
    once, counts = rows_of(found, by_kind["dedupe"]), rows_of(found, by_kind["stateStoreSave"], spark=place.spark)
    assert sorted(row["word"] for row in once) == WORDS
    assert sorted((row["word"], row["count"]) for row in counts) == [(word, 1) for word in WORDS]
    assert len({row["partition_id"] for row in counts}) == 3
    assert verify(open_savepoint(moved)) == []
    assert error_of(lambda: found.state("words")).code == "TG-STATE-TABLE"
    assert error_of(lambda: found.state("counts")).code == "TG-STATE-TABLE"
    assert error_of(lambda: found.state_arrow("counts", operator=0)).code == "TG-STATE-TABLE"
    spark = moved / "queries/counts/spark"
    next(path for path in spark.rglob("*.*") if is_state(path.relative_to(spark).as_posix())).unlink()
    assert error_of(lambda: found.state("counts", operator=0)).code == "TG-SAVEPOINT-INCOMPLETE"
    (moved / "_metadata.json").unlink()
    assert error_of(lambda: read_savepoint(moved)).code == "TG-SAVEPOINT-INCOMPLETE"


def test_a_session_of_a_cluster_reads_no_savepoint_on_this_disk(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Its tasks would fail when the rows are read, on machines that do not have the files."""
    place.write(event("01", WORDS[0]))
    found = read_savepoint(saved(place, two_counts(place)))
    monkeypatch.setattr(session, "master_of", lambda _: Master.STANDALONE)
    error = error_of(lambda: found.state("counts", operator=0, spark=place.spark))
    assert (error.code, "state_arrow" in error.next_step) == ("TG-STORAGE-UNSHARED", True)
