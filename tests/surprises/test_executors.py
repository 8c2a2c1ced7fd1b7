"""Executors that are killed, two attempts of one task at once, stages that run again: two executors, a core each."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.support.today import turn
from tests.surprises.executors import Executors
from tests.surprises.gates import Gate
from tests.surprises.prepared import PreparedSink
from tests.surprises.words import DrawsJob
from tidegate import FileSink, FileSource, Job, JobHandle, TidegateError
from tidegate.core.effects import Happening
from tidegate.core.errors import Code
from tidegate.core.happenings import EpochPrepared
from tidegate.spark.log_of_job import Log

FIRST, SECOND = ["sea", "wind"], ["salt", "sand"]
"""Words whose state stands in the first and in the second of two partitions."""


@pytest.fixture(autouse=True)
def both_executors(executors: Executors) -> None:
    executors.wait_until_there()


# --- two attempts at once ----------------------------------------------------------------------------------


@turn(2, of=4)
@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once", "at-most-once"])
def test_when_two_attempts_of_a_task_prepare_at_once_one_counts(
    executors: Executors, cluster_place: Place, mode: str
) -> None:
    """The slow one is held behind its pre-commit, until Spark has taken the other's result."""
    draws = DrawsJob(cluster_place, mode)
    shelf = draws.shelf
    draws.prepared.post("hold")
    with started(draws.make(shelf=shelf), draws.prepared) as handle:
        with executors.speculation():
            cluster_place.write(*FIRST, *SECOND)
            wait_until_finished(handle, 0)
        first_epoch = draws.prepared.passages()
        draws.prepared.open()
        cluster_place.write(*FIRST, *SECOND)
        wait_until_finished(handle, 1)
        handle.stop()

    assert draws.flaws(dict.fromkeys([*FIRST, *SECOND], 2)) == []
    assert Counter(passage.attempt for passage in first_epoch) == {0: 2, 1: 1}
    slow = next(passage.partition for passage in first_epoch if passage.attempt == 1)
    assert len({passage.executor for passage in first_epoch if passage.partition == slow}) == 2
    assert draws.leftovers() == []


# --- a shuffle block is lost -------------------------------------------------------------------------------


@pytest.mark.more
def test_when_state_was_computed_twice_in_an_epoch_the_epoch_does_not_count(
    executors: Executors, cluster_place: Place
) -> None:
    """An executor is lost with the output of its stateful task, before the next stage has read it.

    Spark computes the task again, passes the second output on, and names the first state in `commits/N`.
    """
    draws = DrawsJob(cluster_place)
    draws.computing(SECOND[0]).post("hold")
    cluster_place.write(*FIRST, *SECOND)
    other, held = draws.computing(FIRST[0]), draws.computing(SECOND[0])
    with started(draws.make(spread), held, until="caught-up") as handle:
        held.wait_until_held()
        wait_until(lambda: completed_tasks(cluster_place) == 1, "the end of the other task")
        [done] = other.passages()
        assert done.executor != held.held_in()
        executors.kill(done.executor)
        wait_until(lambda: len(other.passages()) == 2, "the other task again")
        held.open()
        error = error_of(handle.wait)

    assert error.catalogue_entry is Code.EPOCH_TORN
    assert "computed 2 times" in error.found
    run(draws.make(spread))
    cluster_place.write(*FIRST, *SECOND)
    run(draws.make(spread))
    assert draws.flaws(dict.fromkeys([*FIRST, *SECOND], 2)) == []


@turn(0, of=2)
def test_when_a_block_is_lost_that_some_writers_have_read_the_epoch_does_not_count(
    executors: Executors, cluster_place: Place
) -> None:
    """Each row goes to a task by a random number, and would go to another one the second time."""
    place, folder = cluster_place, cluster_place.folder
    mapping, prepared = Gate(folder / "gates", "mapping"), Gate(folder / "gates", "prepared")
    words = [f"word{number:02d}" for number in range(40)]

    def lot(_):  # without types: Spark would take them for those of a pandas function
        mapping.reach()
        return random.random()

    def job() -> Job:
        made = place.job()
        source = FileSource(str(place.input), format="json", schema="word string", maxFilesPerTrigger=2)
        lots = F.udf(lot, "double").asNondeterministic()
        rows = made.source("words", source).withColumn("lot", lots("word")).repartition(4, "lot").select("word")
        files = FileSink("files", folder / "out", format="json")
        made.query("query", rows, sinks=[files, PreparedSink("shelf", folder, prepared)])
        return made

    place.write(*words[:20])
    place.write(*words[20:])
    mapping.post("hold")
    prepared.post("hold")
    with started(job(), mapping, prepared, until="caught-up") as handle:
        mapping.wait_until_held()
        wait_until(lambda: completed_tasks(place) == 1, "the end of the other map task")
        mapping.open()
        prepared.wait_until_held()
        wait_until(lambda: completed_tasks(place) == 3, "the end of the other writers")
        executors.kill(prepared.held_in())
        error = error_of(handle.wait)
    assert error.catalogue_entry is Code.EPOCH_FAILED
    assert place.words_out() == {}
    run(job())
    assert place.words_out() == {0: words}


@contextmanager
def started(job: Job, *gates: Gate, until: Literal["caught-up"] | None = None) -> Iterator[JobHandle]:
    """The job runs; whatever becomes of the test, no attempt is held and the job has ended afterwards."""
    handle = job.start(until=until)
    try:
        yield handle
    finally:
        for gate in gates:
            gate.open()
        with suppress(TidegateError):
            handle.stop(timeout_seconds=5)


def spread(rows: DataFrame) -> DataFrame:
    """One more shuffle behind the state. Spark 4.3 needs a projection between this kind of state and a shuffle."""
    return rows.withColumn("word", F.concat("word", F.lit(""))).repartition(3, "word")


def completed_tasks(place: Place) -> int:
    """How many tasks of the stage that runs are done."""
    tracker = place.spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


# --- an executor dies --------------------------------------------------------------------------------------


@turn(0, of=2)
def test_an_executor_may_die_in_every_phase_of_an_epoch(
    executors: Executors, cluster_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = DrawsJob(cluster_place)
    shelf = draws.shelf
    killed: list[str] = []

    def kill(executor: int, phase: str) -> None:
        executors.kill(executor)
        killed.append(phase)

    def told(_log: Log, _query: str, _run: int, happening: Happening) -> None:
        if happening == EpochPrepared(epoch=2, rows=12):
            kill(executors.processes()[0], "between prepared and commits")

    def begin() -> None:
        executors.wait_until_there()
        cluster_place.write(*FIRST, *SECOND)

    monkeypatch.setattr(Log, "happened", told)
    with started(draws.make(shelf=shelf), draws.computing(SECOND[0]), draws.prepared) as handle:
        draws.computing(SECOND[0]).post("hold")
        begin()
        draws.computing(SECOND[0]).wait_until_held()
        kill(draws.computing(SECOND[0]).held_in(), "computing")
        wait_until_finished(handle, 0)

        draws.prepared.post("hold")
        begin()
        draws.prepared.wait_until_held()
        kill(draws.prepared.held_in(), "prepared")
        wait_until_finished(handle, 1)

        begin()
        wait_until_finished(handle, 2)

        shelf.moods.gate = threading.Event()
        begin()
        wait_until(lambda: shelf.moods.commits == 4, "the last epoch's commit")
        kill(executors.processes()[0], "committing")
        shelf.moods.gate.set()
        wait_until_finished(handle, 3)
        handle.stop()

    assert killed == ["computing", "prepared", "between prepared and commits", "committing"]
    assert draws.flaws(dict.fromkeys([*FIRST, *SECOND], 4)) == []
    assert draws.leftovers() == []
