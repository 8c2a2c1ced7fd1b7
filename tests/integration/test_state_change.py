"""State goes on in another backend or in another number of partitions: every row of it, where Spark looks for it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.integration.place import Place, error_of, setting
from tests.integration.test_restore import Counter, event, everything, run_from, saved
from tests.support.today import turn
from tidegate import FileSink, Job, Restore, SQLiteSink
from tidegate.core.records import SavedQuery, SavepointRecord
from tidegate.core.spark_log import parse_offsets
from tidegate.savepoints.folder import open_savepoint, verify
from tidegate.savepoints.rewritten import begin
from tidegate.savepoints.state_change import MOVABLE, Reach
from tidegate.settings.kinds import Backend
from tidegate.spark.query_conf import FORMAT_KEY, PARTITIONS_KEY, PROVIDER_KEY, STORES
from tidegate.spark.state import rewrite as state_rewrite

WORDS = [f"word{number:02d}" for number in range(24)]


def counting(place: Place, backend: str, partitions: int) -> Job:
    """Running counts of words into a table; windows of ten seconds, when they have closed, into files."""
    job = place.job(state_backend=backend, parallelism=str(partitions))
    events = place.source(job, "events", "at timestamp, word string")
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("counts", events.groupBy("word").count(), mode="update", sinks=[table])
    windows = events.withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds"), "word").count()
    closed = windows.select("word", F.date_format("window.start", "ss").alias("start"), F.col("count").alias("n"))
    job.query("windows", closed, sinks=[FileSink("files", place.folder / "out", format="json")])
    return job


def state(place: Place, checkpoint: Path, query: SavedQuery) -> list[str]:
    """Every row of state behind the saved epoch, by Spark's own reader, but for the partition that it is in."""
    backend = Backend(_provider_of(checkpoint, query.done.epoch))
    found: list[str] = []
    with setting(place.spark, FORMAT_KEY, STORES[backend].checkpoint_format):
        for operator in query.operators:
            for store in operator.stores:
                options = {"batchId": query.done.epoch, "operatorId": operator.number, "storeName": store}
                rows = place.spark.read.format("statestore").options(**options).load(str(checkpoint))
                written = rows.select(F.to_json(F.struct("key", "value"))).collect()
                found += [f"{operator.number} {store} {row[0]}" for row in written]
    return sorted(found)


def _provider_of(checkpoint: Path, epoch: int) -> str:
    entry = parse_offsets((checkpoint / f"offsets/{epoch}").read_bytes())
    assert entry is not None
    return next(each.value for each, store in STORES.items() if store.provider == entry.conf[PROVIDER_KEY])


def compare_state(place: Place, savepoint: Path, form: tuple[str, int], generation: int = 2) -> int:
    """How many rows of state went on, each as it was, in that backend and number of partitions."""
    record: SavepointRecord = open_savepoint(savepoint).record
    rows = 0
    for query in record.queries:
        uid = query.done.query
        restored = place.query(uid).with_name(f"g{generation}") / "spark"
        before = state(place, savepoint / "queries" / uid / "spark", query)
        assert state(place, restored, query) == before, uid
        entry = parse_offsets((restored / f"offsets/{query.done.epoch}").read_bytes())
        assert entry is not None
        found = entry.conf[PROVIDER_KEY], entry.conf[PARTITIONS_KEY]
        assert found == (STORES[Backend(form[0])].provider, str(form[1]))
        rows += len(before)
    return rows


@pytest.mark.more  # another backend: `test_groups_go_on_from_a_canonical_savepoint`; other partitions: the next test
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("rocksdb", 2), ("hashmap", 3)),
        (("hashmap", 3), ("rocksdb", 2)),
        (("rocksdb", 2), ("rocksdb", 5)),
        (("rocksdb", 5), ("rocksdb", 1)),
        (("rocksdb", 2), ("hashmap", 2)),
        (("hashmap", 2), ("hashmap", 4)),
        (("hashmap", 4), ("hashmap", 1)),
    ],
    ids=lambda form: f"{form[0]}{form[1]}",
)
def test_groups_go_on_in_another_backend_and_in_other_partitions(
    place: Place, before: tuple[str, int], after: tuple[str, int]
):
    place.write(*(event("01", word) for word in WORDS[:9]))
    place.write(*(event("01", word) for word in WORDS[9:]))
    path = saved(place, counting(place, *before), epoch=1)  # so that there is a log of what was, in another form
    place.write(*(event("02", word) for word in WORDS), event("16", "late"))
    run_from(counting(place, *after), path)
    assert place.table() == [("late", 1), *((word, 2) for word in WORDS)]
    closed = [(row["start"], row["word"], row["n"]) for rows in place.files().values() for row in rows]
    assert sorted(closed) == [("00", word, 2) for word in WORDS], "windows that were open close with both rows"
    assert compare_state(place, path, after) == 2 * len(WORDS)
    assert verify(open_savepoint(path)) == []
    place.write(event("17", "late"))
    run_from(counting(place, *after), path)  # as a supervisor starts it again: from what it has written itself
    assert ("late", 2) in place.table()


def words_counted(place: Place, **settings: str) -> Job:
    job = place.job(**settings)
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("query", place.words(job).groupBy("word").count(), mode="update", sinks=[table])
    return job


@turn(0, of=2)
def test_a_restore_that_fails_while_it_writes_state_leaves_the_job_as_it_was_and_the_next_one_is_whole(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    place.write(*WORDS)
    path = saved(place, words_counted(place, parallelism="2"))
    before = everything(place)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full_for_spark(*_: object) -> None:
        jvm: Any = place.spark._jvm
        cause = jvm.java.io.IOException("No space left on device")
        raise Py4JJavaError("", java_exception=jvm.java.lang.RuntimeException("a task failed", cause))

    for owner, name, how in (
        (state_rewrite._Rewrite, "_divided", full_for_spark),
        (state_rewrite, "replace_commits", full),  # the state is written, and not named yet
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, how)
            assert error_of(lambda: run_from(words_counted(place, parallelism="3"), path)).code == "TG-STORAGE-FULL"
        assert everything(place) == before
    place.write(*WORDS)
    run_from(words_counted(place, parallelism="3"), path)
    assert place.table() == [(word, 2) for word in WORDS]
    assert compare_state(place, path, ("rocksdb", 3)) == len(WORDS)


@turn(0, of=2)
def test_an_error_in_one_of_the_threads_ends_the_others_and_is_the_users(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.write(*WORDS)
    path = saved(place, words_counted(place, state_backend="hashmap", parallelism="4"))
    before = everything(place)

    def with_a_torn_partition(checkpoint: Path, partitions: int) -> Path:
        aside = begin(checkpoint, partitions)
        torn = aside / "state/0/1/1.delta"
        torn.write_bytes(torn.read_bytes()[:-3])
        return aside

    def without_room_for_a_store(checkpoint: Path, partitions: int) -> Path:
        aside = begin(checkpoint, partitions)
        (checkpoint / "state/0/1").write_bytes(b"a file, where Spark makes a folder")
        return aside

    for struck in (with_a_torn_partition, without_room_for_a_store):
        with monkeypatch.context() as patched:
            patched.setattr(state_rewrite, "begin", struck)
            error = error_of(lambda: run_from(words_counted(place, parallelism="3"), path))
        assert (error.code, error.expected) == ("TG-RESTORE-STATE", "state that Spark can write in its new form")
        assert everything(place) == before
        assert threads_of_the_rewrite(place) == []
    run_from(words_counted(place, parallelism="3"), path)
    assert compare_state(place, path, ("rocksdb", 3)) == len(WORDS)


def threads_of_the_rewrite(place: Place) -> list[str]:
    jvm: Any = place.spark._jvm
    names = [str(thread.getName()) for thread in jvm.java.lang.Thread.getAllStackTraces().keySet()]
    return [name for name in names if name.startswith("tidegate-state")]


@pytest.mark.more  # the verdict is in tests/unit/test_restoring.py
def test_what_a_limit_has_counted_stays_in_its_partitions(place: Place):
    def job(**settings: str) -> Job:
        wanted = place.job(**settings)
        table = SQLiteSink("table", place.folder / "out.db", table="words")
        wanted.query("query", place.words(wanted).limit(3), sinks=[table])
        return wanted

    place.write("sea", "wind")
    path = saved(place, job())
    before = everything(place)
    place.write("sand", "sun")
    for settings, code in (
        ({"parallelism": "3"}, "RESTORE-PARTITIONS"),
        ({"state_backend": "hashmap"}, "STATE-FORMAT"),
    ):
        error = error_of(lambda settings=settings: run_from(job(**settings), path))
        assert (error.code, "what a limit has counted" in error.found) == (f"TG-{code}", True)
    (place.input / "001.json").rename(place.folder / "later")
    assert everything(place).keys() == before.keys() | {"later"}
    (place.folder / "later").rename(place.input / "001.json")
    run_from(job(), path)
    assert len(place.table()) == 3


def test_the_operators_that_can_be_moved_are_those_that_spark_can_move(place: Place):
    jvm: Any = place.spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    names: Any = jvm.org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils
    custom = {names.TRANSFORM_WITH_STATE_OP_NAMES().apply(index) for index in range(3)}
    by_hand = {names.FLAT_MAP_GROUPS_OP_NAMES().apply(index) for index in range(2)}
    others = {
        names.SYMMETRIC_HASH_JOIN_EXEC_OP_NAME(),
        names.STATE_STORE_SAVE_EXEC_OP_NAME(),
        names.DEDUPLICATE_EXEC_OP_NAME(),
        names.DEDUPLICATE_WITHIN_WATERMARK_EXEC_OP_NAME(),
        names.SESSION_WINDOW_STATE_STORE_SAVE_EXEC_OP_NAME(),
    }
    assert {name for name, reach in MOVABLE.items() if reach is Reach.PARTITIONS} == custom
    assert {name for name, reach in MOVABLE.items() if reach is Reach.EVERYWHERE} == by_hand | others


@pytest.mark.more
@pytest.mark.parametrize("backends", [("rocksdb", "hashmap"), ("hashmap", "rocksdb")])
def test_a_query_without_state_goes_on_with_another_backend(place: Place, backends: tuple[str, str]):
    def job(backend: str) -> Job:
        wanted = place.job(state_backend=backend)
        table = SQLiteSink("table", place.folder / "out.db", table="words")
        wanted.query("query", place.words(wanted), sinks=[table])
        return wanted

    place.write("sea")
    path = saved(place, job(backends[0]))
    place.write("wind")
    run_from(job(backends[1]), path)
    assert place.table() == [("sea",), ("wind",)]
    place.write("sand")
    run_from(job(backends[1]), path)
    assert place.table() == [("sand",), ("sea",), ("wind",)]


@pytest.mark.more
@pytest.mark.parametrize(("before", "after"), [("2", "4"), ("3", "1")])
def test_custom_state_goes_on_in_other_partitions(place: Place, before: str, after: str):
    """Spark names the schemas of such state by absolute paths, and nothing is left of the first job."""

    def job(partitions: str) -> Job:
        wanted = place.job(state_backend="rocksdb", parallelism=partitions)
        by_word = place.words(wanted).groupBy("word")
        counted = by_word.transformWithStateInPandas(Counter(), "word string, n long", "Update", "None")
        table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
        wanted.query("query", counted, mode="update", sinks=[table])
        return wanted

    place.write(*WORDS)
    path = saved(place, job(before))
    shutil.rmtree(place.checkpoints)
    place.write(*WORDS, "late")
    moved = path.rename(place.folder / "moved")
    run_from(job(after), Restore(str(moved), claim=True))
    assert place.table() == [("late", 1), *((word, 2) for word in WORDS)]
    assert verify(open_savepoint(moved)) == []
    place.write("late")
    run_from(job(after), Restore(str(moved), claim=True))
    assert ("late", 2) in place.table()


def counted_by_hand(key: Any, rows: Iterator[Any], state: GroupState) -> Iterator[Any]:
    count = (state.get[0] if state.exists else 0) + sum(len(each) for each in rows)
    state.update((count,))
    yield pd.DataFrame({"word": [key[0]], "n": [count]})


def every_kind(place: Place, backend: str, partitions: int) -> Job:
    """A query for each kind of state that both backends can keep."""
    job = place.job(state_backend=backend, parallelism=str(partitions))
    events = place.source(job, "events", "at timestamp, word string")
    timed = events.withWatermark("at", "10 seconds")

    def query(uid: str, rows: DataFrame, mode: Literal["append", "update"] = "append") -> None:
        job.query(uid, rows, mode=mode, sinks=[FileSink(f"{uid}-out", place.folder / uid, format="json")])

    query("sessions", timed.groupBy(F.session_window("at", "5 seconds"), "word").count().select("word", "count"))
    query("total", events.groupBy().count(), "update")
    query("once", timed.dropDuplicates(["word", "at"]).select("word"))
    query("lately", timed.dropDuplicatesWithinWatermark(["word"]).select("word"))
    other = timed.select(F.col("at").alias("then"), F.concat(F.lit("word"), F.substring("word", 5, 9)).alias("same"))
    met = timed.where("word LIKE 'word%'").join(
        other.where("same LIKE 'word%'").withColumn("late", F.col("then")),
        F.expr("word = same AND then > at AND then <= at + interval 1 minute"),
        "left_outer",
    )
    query("pairs", met.select("word", F.date_format("then", "ss").alias("then")))
    by_hand = events.groupBy("word").applyInPandasWithState(
        counted_by_hand, "word string, n long", "n long", "Update", GroupStateTimeout.NoTimeout
    )
    query("by-hand", by_hand, "update")
    return job


KINDS = [f"word{number:02d}" for number in range(8)]


def out(place: Place, query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for rows in place.files(query).values() for row in rows)


@pytest.mark.more
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("rocksdb", 2), ("rocksdb", 4)),
        (("rocksdb", 3), ("rocksdb", 1)),
        (("rocksdb", 2), ("hashmap", 4)),
        (("hashmap", 2), ("rocksdb", 4)),
        (("hashmap", 3), ("hashmap", 2)),
    ],
    ids=lambda form: f"{form[0]}{form[1]}",
)
def test_every_kind_of_state_goes_on(place: Place, before: tuple[str, int], after: tuple[str, int]):
    """Four partitions: there Spark's shuffle would look for a row without a key in the third one, and a count of
    everything is in the first."""
    place.write(*(event("01", word) for word in KINDS))
    path = saved(place, every_kind(place, *before))
    place.write(*(event(second, word) for word in KINDS for second in ("01", "04")))
    run_from(every_kind(place, *after), path)
    assert compare_state(place, path, after) > 5 * len(KINDS)
    place.write(event("59", "late"))
    run_from(every_kind(place, *after), path)
    assert out(place, "total") == [(8,), (24,), (25,)]
    assert out(place, "sessions") == [(word, 3) for word in KINDS]
    assert [row for row in out(place, "once") if row != ("late",)] == sorted([(word,) for word in KINDS] * 2)
    assert [row for row in out(place, "lately") if row != ("late",)] == [(word,) for word in KINDS]
    assert out(place, "by-hand") == sorted([("late", 1), *((word, n) for word in KINDS for n in (1, 3))])
    pairs = out(place, "pairs")
    assert [row for row in pairs if row[1:] == ("04",)] == sorted([(word, "04") for word in KINDS] * 2)
