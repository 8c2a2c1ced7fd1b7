"""A `foreachBatch` function as a sink: called with final rows, one epoch at a time, and never passed over."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run
from tidegate import FileSink, FunctionSink
from tidegate.core.records import Evidence, Outcome
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.files import parts as file_parts
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY, Row, SinkContract, attempt_of, rows_from


class TestFunction(SinkContract):
    """The suite that every sink passes; the function appends to a file."""

    lives_in_one_process = True
    """Only this process has a Spark session."""

    spark: SparkSession

    @pytest.fixture(autouse=True)
    def in_a_session(self, spark: SparkSession) -> None:
        self.spark = spark

    def make_sink(self) -> TwoPhaseSink:
        sink = FunctionSink("numbers", self.append)
        sink.attach(self.spark, Folder.of(self.folder / "odd [folder] {x}*" / "ledger"))
        return sink

    def append(self, rows: DataFrame, epoch: int) -> None:
        with self.target.open("a") as target:
            target.writelines(json.dumps(row.asDict()) + "\n" for row in rows.collect())

    def read_target(self) -> list[Row]:
        return [json.loads(line) for line in self.target.read_text().splitlines()] if self.target.exists() else []

    @property
    def target(self) -> Path:
        return self.folder / "target.json"


Function = Callable[[DataFrame, int], object]


class Calls:
    """A function that keeps what it was called with, and does what the test tells it to."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[str]]] = []
        self.error: Exception | None = None

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        self.seen.append((epoch, sorted(row.word for row in rows.collect())))
        if self.error is not None:
            raise self.error


def start(place: Place, fn: Function, *, delivery: str | None = None) -> None:
    """The words of the input into `fn` and into files, until all are there."""
    job = place.job()
    sinks = [FunctionSink("fn", fn, delivery=delivery), FileSink("files", place.folder / "out", format="json")]
    job.query("query", place.words(job), sinks=sinks)
    run(job)


def test_the_function_gets_every_epoch_once_in_order(place: Place) -> None:
    calls = Calls()
    place.write("a", "b")
    place.write("c")
    start(place, calls)
    place.write("d")
    start(place, calls)
    assert calls.seen == [(0, ["a", "b"]), (1, ["c"]), (2, ["d"])]
    assert place.words_out() == {0: ["a", "b"], 1: ["c"], 2: ["d"]}


def test_its_stage_goes_with_the_epochs(place: Place) -> None:
    place.write("a")
    start(place, Calls())
    files = [file for file in (place.query() / "ledger" / "functions").rglob("*") if file.is_file()]
    assert sorted(file.name for file in files) == ["fn.lock", "g1-e0.receipt"]


def test_an_epoch_without_rows_is_not_handed_over(place: Place) -> None:
    calls = Calls()
    place.write("a")
    place.write("b")
    job = place.job()
    sink = FunctionSink("fn", calls, where=F.col("word") == "b")
    job.query("query", place.words(job), sinks=[sink])
    run(job)
    assert calls.seen == [(1, ["b"])]


def test_an_error_of_the_function_ends_the_job_and_the_epoch_comes_again_first(place: Place) -> None:
    calls = Calls()
    place.write("a")
    start(place, calls)
    place.write("b")
    place.write("c")
    calls.error = ConnectionError("the warehouse is closed")
    error = error_of(lambda: start(place, calls))
    assert (error.code, error.found) == ("TG-FUNCTION-FAILED", "ConnectionError: the warehouse is closed")
    assert error.where == "sink 'fn', epoch 1"
    assert isinstance(error.__cause__, ConnectionError)
    again = error_of(lambda: start(place, calls))
    assert again.code == "TG-FUNCTION-FAILED"
    calls.error = None
    start(place, calls)
    assert calls.seen == [(0, ["a"]), (1, ["b"]), (1, ["b"]), (1, ["b"]), (2, ["c"])]
    assert place.words_out() == {0: ["a"], 1: ["b"], 2: ["c"]}


def test_a_running_total_is_handed_over_whole_in_complete_mode(place: Place) -> None:
    seen: list[dict[str, int]] = []
    place.write("a", "b")
    place.write("a")
    job = place.job()
    counts = place.words(job).groupBy("word").count()
    sink = FunctionSink("fn", lambda rows, epoch: seen.append({row["word"]: row["count"] for row in rows.collect()}))
    job.query("query", counts, mode="complete", sinks=[sink])
    run(job)
    assert seen == [{"a": 1, "b": 1}, {"a": 2, "b": 1}]


def test_at_least_once_calls_inside_the_epoch_and_leaves_no_receipt(place: Place) -> None:
    calls = Calls()
    place.write("a")
    start(place, calls, delivery="at-least-once")
    assert calls.seen == [(0, ["a"])]
    assert list((place.query() / "ledger").rglob("*.receipt")) == []


def test_rows_of_a_type_that_parquet_does_not_have_are_refused(place: Place) -> None:
    job = place.job()
    rows = place.words(job).select(F.expr("interval '1' day").alias("span"))
    job.query("query", rows, sinks=[FunctionSink("fn", Calls())])
    assert error_of(lambda: run(job)).code == "TG-SCHEMA-MISMATCH"


# --- one sink, without a job -------------------------------------------------------------------------------


@pytest.fixture
def contract(spark: SparkSession, tmp_path: Path) -> TestFunction:
    suite = TestFunction()
    suite.set_up(tmp_path)
    suite.spark = spark
    return suite


def function_sink_of(contract: TestFunction, fn: Function) -> FunctionSink:
    sink = FunctionSink("numbers", fn)
    sink.attach(contract.spark, Folder.of(contract.folder / "ledger"))
    sink.open(contract.plan())
    return sink


def test_a_second_finisher_does_not_start_the_same_rows_again(contract: TestFunction) -> None:
    calls: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def slow(rows: DataFrame, epoch: int) -> None:
        calls.append(epoch)
        begun.set()
        assert go_on.wait(60)

    sink, second = function_sink_of(contract, slow), function_sink_of(contract, slow)
    committable = contract.prepared(sink, attempt_of(), rows_from(0, 2))
    first = threading.Thread(target=sink.commit, args=([committable],))
    first.start()
    assert begun.wait(60)
    (answer,) = second.commit([committable])
    go_on.set()
    first.join()
    assert answer.outcome is Outcome.RETRY
    contract.all_answer(second.commit([committable]), Outcome.ALREADY)
    assert calls == [0]


def test_rows_that_are_lost_are_told_and_nothing_is_handed_over(
    contract: TestFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls()
    sink = function_sink_of(contract, calls)
    tasks = [contract.prepared(sink, attempt_of(task=task), rows_from(task, 2)) for task in range(2)]
    staged = sink._stage.file(tasks[1].attempt)
    staged.write_bytes(staged.read_bytes()[:-1] + b"x")
    assert [answer.outcome for answer in sink.commit(tasks)] == [Outcome.RETRY, Outcome.LOST]
    assert calls.seen == []
    assert sink.evidence(tasks[0]) is Evidence.ABSENT
    monkeypatch.setattr(file_parts, "CHECKSUM_UP_TO_BYTES", 0)
    assert file_parts.flaws_of(sink._stage, tasks[1]) == {}  # a large file is compared by its size


def test_a_function_sink_belongs_to_one_job() -> None:
    with pytest.raises(RuntimeError, match="belongs to no job"):
        FunctionSink("fn", Calls()).clean(IDENTITY, 0)
