"""What a restore may change on the way, and what it says of a changed program before anything is touched."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, wait_until_finished
from tests.integration.test_restore import everything, job_record, run_from
from tests.support.logged import told
from tidegate import FileSource, Job, Restore, SQLiteSink
from tidegate.savepoints.restoring import Scope


def grouping(place: Place, change: Callable[[DataFrame], DataFrame], **settings: Any) -> Job:
    """A job with one query, whose operators are what `change` makes of (word, n); the table takes any rows."""
    job = place.job(**settings)
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


@pytest.mark.more
@pytest.mark.parametrize("name", ["two words"])
def test_a_job_goes_on_whatever_the_name_of_the_folder_that_it_stands_in(place: Place, name: str):
    elsewhere = {"checkpointing_dir": str(place.folder / name)}
    place.write({"word": "sea", "n": 1})
    path = saved(place, grouping(place, COUNT, **elsewhere))
    place.write({"word": "sea", "n": 2})
    run_from(grouping(place, COUNT, **elsewhere), path)
    assert [row for (row,) in place.table()] == ['{"word":"sea","count":1}', '{"word":"sea","count":2}']


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
    code = "TG-RESTORE-OPERATORS" if change == "no operator" else "TG-OPERATOR-CHANGED"
    assert (error.code, "query query" in error.where) == (code, True)
    assert everything(place) == before
    # What is not of the state may change.
    place.write({"word": "sea", "n": 2})
    run_from(grouping(place, lambda words: COUNT(words.where("n > 0")).withColumn("more", F.lit(1))), path)
    assert [row for (row,) in place.table()] == ['{"word":"sea","count":1}', '{"word":"sea","count":2,"more":1}']


@pytest.mark.more
@pytest.mark.parametrize("name", ["two words", "50%20"])
def test_operators_are_seen_whatever_the_name_of_the_folder_for_temporary_files(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
):
    temporary = place.folder / name
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    place.write({"word": "sea", "n": 1})
    path = saved(place, grouping(place, lambda words: words))
    place.write({"word": "sea", "n": 2})
    run_from(grouping(place, COUNT), path)
    run_from(grouping(place, COUNT), saved(place, grouping(place, COUNT)))
    assert job_record(place).generation == 3
    assert [row for (row,) in place.table()] == ['{"word":"sea","count":1}', '{"word":"sea","n":1}']
    assert list(temporary.iterdir()) == []


@pytest.mark.more
def test_a_stateless_query_that_gets_an_operator_goes_on_behind_its_rows_with_empty_state(place: Place):
    place.write({"word": "sea", "n": 1})
    path = saved(place, grouping(place, lambda words: words))
    place.write({"word": "sea", "n": 2})
    run_from(grouping(place, COUNT), path)
    place.write({"word": "sea", "n": 3})
    grouping(place, COUNT).start(until="caught-up").wait()
    rows = ['{"word":"sea","count":1}', '{"word":"sea","count":2}', '{"word":"sea","n":1}']
    assert [row for (row,) in place.table()] == rows


@pytest.mark.more
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_with_the_offsets_alone_another_aggregate_begins_behind_the_rows_that_were_read(place: Place, backend: str):
    place.write({"word": "sea", "n": 1})
    path = saved(place, grouping(place, COUNT))
    place.write({"word": "sea", "n": 2})
    changed = grouping(place, CHANGED["another aggregate"], state_backend=backend, parallelism=3)
    run_from(changed, Restore(str(path), scope=Scope.OFFSETS_ONLY))
    place.write({"word": "sea", "n": 4})
    grouping(place, CHANGED["another aggregate"], state_backend=backend).start(until="caught-up").wait()
    rows = ['{"word":"sea","count":1}', '{"word":"sea","mean":2.0}', '{"word":"sea","mean":3.0}']
    assert [row for (row,) in place.table()] == rows


def folders(place: Place, change: Callable[[DataFrame], DataFrame], *uids: str, **settings: Any) -> Job:
    """A job that reads a folder of files for each uid, in this order, and puts them together."""
    job = place.job(**settings)
    rows: DataFrame | None = None
    for uid in uids:
        (place.folder / uid).mkdir(exist_ok=True)
        source = FileSource(str(place.folder / uid), format="json", schema="word string", maxFilesPerTrigger=1)
        each = job.source(uid, source)
        rows = each if rows is None else rows.union(each)
    assert rows is not None
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("query", change(rows), mode="update", sinks=[table])
    return job


def put(place: Place, uid: str, number: int, *words: str) -> None:
    (place.folder / uid / f"{number}.json").write_text("".join(json.dumps({"word": word}) + "\n" for word in words))


@pytest.mark.more  # which places they get is in tests/unit/test_restoring.py, and what is written in test_log_change.py
def test_sources_are_added_given_up_and_put_in_another_order_and_no_row_is_lost_or_repeated(place: Place):
    def count(rows: DataFrame) -> DataFrame:
        return rows.groupBy("word").count()

    first = folders(place, count, "a", "b")
    for uid in ("a", "b"):
        put(place, uid, 0, uid, "all")
    path = saved(place, first)
    assert place.table() == [("a", 1), ("all", 2), ("b", 1)]
    put(place, "a", 1, "a", "all")
    put(place, "b", 1, "b", "all")
    second = folders(place, count, "c", "b")
    put(place, "c", 0, "c", "all")
    before = everything(place)
    error = error_of(lambda: run_from(second, path))
    assert (error.code, error.expected) == ("TG-SOURCES-CHANGED", "the savepoint's sources in the query: a")
    assert everything(place) == before
    run_from(folders(place, count, "c", "b", "a"), path)
    assert place.table() == [("a", 2), ("all", 5), ("b", 2), ("c", 1)]
    run_from(folders(place, count, "c", "b", "a"), path)  # started again: it goes on with the sources that it has now
    run_from(folders(place, count, "b"), Restore(str(path), allow_non_restored_of=("query",), rewind="fewer"))
    assert place.table() == [("a", 2), ("all", 3), ("b", 2), ("c", 1)], "state of the savepoint, and one more file of b"


@pytest.mark.more
def test_sources_in_another_order_go_on_where_they_were_with_state_in_other_partitions(place: Place):
    """Both change the entry of the epoch in Spark's log."""

    def first() -> Job:
        return folders(place, COUNT, "a", "b", parallelism="2")

    first()
    put(place, "a", 0, "a", "all")
    put(place, "a", 1, "a", "all")
    put(place, "b", 0, "b", "all")
    first().start(until="caught-up").wait()
    path = saved(place, first())
    assert place.table() == [("a", 2), ("all", 3), ("b", 1)]
    put(place, "a", 2, "a")
    put(place, "b", 1, "b", "all")
    run_from(folders(place, COUNT, "b", "a", parallelism="3"), path)
    assert place.table() == [("a", 3), ("all", 4), ("b", 2)]


@pytest.mark.more
def test_with_the_state_alone_every_source_is_read_from_where_the_program_says(place: Place):
    def count(rows: DataFrame) -> DataFrame:
        return rows.groupBy("word").count()

    first = folders(place, count, "a")
    put(place, "a", 0, "sea")
    path = saved(place, first)
    run_from(folders(place, count, "a"), Restore(str(path), scope=Scope.STATE_ONLY))
    assert place.table() == [("sea", 2)], "the row is in the state, and it is read again"
    put(place, "a", 1, "sea")
    folders(place, count, "a").start(until="caught-up").wait()
    assert place.table() == [("sea", 3)]


@pytest.mark.more
def test_a_job_goes_back_to_a_retained_checkpoint_with_the_state_it_had_then(
    place: Place, caplog: pytest.LogCaptureFixture
):
    def kept(**settings: Any) -> Job:
        return grouping(place, COUNT, checkpointing_retained=3, **settings)

    for number in range(3):
        place.write({"word": "sea", "n": number})
    kept().start(until="caught-up").wait()
    counted = [f'{{"word":"sea","count":{count}}}' for count in (1, 2, 3)]
    assert [row for (row,) in place.table()] == counted
    checkpoints = place.checkpoints / "job/checkpoints"
    path = sorted(checkpoints.iterdir(), key=lambda each: int(each.name))[-2]
    before = everything(place)
    error = error_of(lambda: run_from(kept(), path))
    assert (error.code, error.found.split(": ")[1]) == ("TG-SINK-AHEAD", "rows of epoch 2 would come again")
    other = "hashmap" if kept().settings.state_backend.value == "rocksdb" else "rocksdb"
    error = error_of(lambda: run_from(kept(state_backend=other), Restore(str(path), rewind="x")))
    assert (error.code, "restored as they are" in error.next_step) == ("TG-STATE-FORMAT", True)
    assert everything(place) == before
    with caplog.at_level("INFO", "tidegate"):
        run_from(kept(), Restore(str(path), rewind="one"))
    assert any(f"behind epoch 1 of savepoint {path};" in each for each in told(caplog)), "by the name that was given"
    assert [row for (row,) in place.table()] == sorted([*counted, counted[2]])
    run_from(kept(), Restore(str(path), rewind="one"))  # as a supervisor starts it again
    assert len(place.table()) == 4
    assert not list(place.folder.rglob("tidegate-checkpoint-*"))
