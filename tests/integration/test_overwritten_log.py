"""A driver that was paused overwrites entries of Spark's log, as it can on an object store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run
from tests.support.today import turn
from tidegate import FileSink, Job
from tidegate.core.effects import Compute, Computed
from tidegate.core.errors import Code
from tidegate.spark.epoch_thread import EpochThread
from tidegate.spark.query_run import QueryRun
from tidegate.storages.terms.lease import HeldTerm

SCHEMA = "at timestamp, word string, n long"


def joined(rows: DataFrame) -> DataFrame:
    other = rows.select(F.col("word").alias("same"), F.col("at").alias("then"))
    return rows.join(other, F.expr("word = same AND then >= at AND then <= at + interval 1 minute"))


PROGRAMS: dict[str, Any] = {
    "none": lambda rows: rows.select("word"),
    "once": lambda rows: rows.dropDuplicates(["word", "at"]),
    "window": lambda rows: rows.groupBy(F.window("at", "10 seconds"), "word").count(),
    "joined": joined,
    "twice": lambda rows: (
        rows.groupBy(F.window("at", "5 seconds"), "word")
        .count()
        .groupBy(F.window(F.window_time("window"), "1 minute"))
        .agg(F.max("count"))
    ),
}


@turn(1, of=4)
def test_what_a_run_has_planned_is_what_spark_logs_for_every_kind_of_state(place: Place, held: list[HeldTerm]):
    """A difference would end the job."""

    def job() -> Job:
        job = place.job()
        for name, program in PROGRAMS.items():
            rows = place.source(job, f"{name}-in", SCHEMA).withWatermark("at", "1 second")
            job.query(name, program(rows), sinks=[FileSink(f"{name}-out", place.folder / name, format="json")])
        return job

    for minute in range(4):
        place.write(*({"at": f"2026-01-01T00:0{minute}:0{n}Z", "word": "sea", "n": n} for n in range(3)))
        if minute:
            run(job())
    for name in PROGRAMS:
        assert len(place.log("ledger/done", name)) >= 4, name


def test_a_run_on_a_state_that_was_not_decided_on_prepares_nothing(
    place: Place, held: list[HeldTerm], monkeypatch: pytest.MonkeyPatch
):
    """A paused driver has computed epoch 1 too. Its `commits/1` arrives between the recovery and the start of Spark."""

    def count() -> None:
        job = place.job()
        counts = place.words(job).groupBy("word").count()
        job.query("query", counts, mode="update", sinks=[FileSink("out", place.folder / "out", format="json")])
        run(job)

    def kept(name: str) -> Path:
        """The whole job moves away, into a folder of this name."""
        aside = place.folder / name
        aside.mkdir()
        for each in ("checkpoints", "out"):
            (place.folder / each).rename(aside / each)
        return aside

    def back(aside: Path) -> None:
        shutil.copytree(aside, place.folder, dirs_exist_ok=True)

    place.write("sea")
    count()
    back(before := kept("before"))
    place.write("sea", "sand")
    count()
    decided = kept("decided")
    back(before)
    count()
    late = kept("late") / "checkpoints"
    back(decided)

    began = QueryRun.start
    theirs, ours = late / "job/queries/query/g1/spark", place.query() / "spark"
    shutil.copytree(theirs / "state", ours / "state", dirs_exist_ok=True)

    def overwritten(self: QueryRun, *arguments: Any) -> None:
        shutil.copy(theirs / "commits/1", ours / "commits/1")
        began(self, *arguments)

    place.write("wind")
    with monkeypatch.context() as patched:
        patched.setattr(QueryRun, "start", overwritten)
        error = error_of(count)
    assert error.catalogue_entry is Code.EPOCH_TORN
    assert "the state of this run after epoch 1" in error.found
    assert place.log("ledger/prepared") == [0, 1]
    count()
    shown = {epoch: sorted((row["word"], row["count"]) for row in rows) for epoch, rows in place.files().items()}
    assert shown == {0: [("sea", 1)], 1: [("sand", 1), ("sea", 2)], 2: [("wind", 1)]}


def test_offsets_that_are_not_those_of_the_running_epoch_end_the_run(
    place: Place, held: list[HeldTerm], monkeypatch: pytest.MonkeyPatch
):
    def words() -> None:
        job = place.job()
        job.query("query", place.words(job), sinks=[FileSink("out", place.folder / "out", format="json")])
        run(job)

    place.write("sea")
    words()
    place.write("sand")
    computing = EpochThread.compute
    offsets = place.query() / "spark/offsets/1"

    def overwritten(self: EpochThread, effect: Compute) -> Computed:
        computed = computing(self, effect)
        offsets.write_text(offsets.read_text().replace('"batchWatermarkMs":0', '"batchWatermarkMs":5'))
        return computed

    with monkeypatch.context() as patched:
        patched.setattr(EpochThread, "compute", overwritten)
        error = error_of(words)
    assert error.catalogue_entry is Code.EPOCH_TORN
    assert "overwritten" in error.found
    words()
    assert place.words_out() == {0: ["sea"], 1: ["sand"]}
    assert Path(offsets).exists()
