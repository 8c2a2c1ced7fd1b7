"""A savepoint says how many rows of state each stateful operator has: as many as Spark's own reader finds."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, setting, wait_until_finished
from tests.integration.test_restore import event, everything, run_from, saved
from tests.integration.test_state_change import KINDS, every_kind
from tests.support.today import turn
from tidegate import FileSink, Job, read_savepoint
from tidegate.core.records import SavedFile, SavedQuery, SavepointRecord, StatefulOperator, encode
from tidegate.savepoints.folder import MANIFEST, open_savepoint, verify
from tidegate.settings.kinds import Backend
from tidegate.spark.query_conf import FORMAT_KEY, PROVIDER_KEY, STORES
from tidegate.spark.state.rows import count_state
from tidegate.spark.task_files import TaskFiles

JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
ROWS_ARE_TRACKED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"


def three_operators(place: Place, backend: str = "rocksdb") -> Job:
    """An aggregation, deduplicated rows and a join, in one query each."""
    job = place.job(state_backend=backend, parallelism="2")
    events = place.source(job, "events", "at timestamp, word string")
    timed = events.withWatermark("at", "1 hour")
    sink = {each: FileSink(f"{each}-out", place.folder / each, format="json") for each in ("counts", "once", "pairs")}
    job.query("counts", events.groupBy("word").count(), mode="update", sinks=[sink["counts"]])
    job.query("once", timed.dropDuplicates(["word", "at"]).select("word"), sinks=[sink["once"]])
    sea, wind = (timed.where(F.col("word").startswith(kind)) for kind in ("sea", "wind"))
    met = sea.alias("a").join(wind.alias("b"), F.expr("a.at = b.at AND b.at <= a.at + interval 1 minute"))
    job.query("pairs", met.select(F.col("a.word").alias("word")), sinks=[sink["pairs"]])
    return job


def counted(place: Place, query: SavedQuery, spark: Path) -> dict[str, int]:
    """The rows of state by operator, by Spark's own reader; of a join those of both sides."""
    assert query.backend is not None
    store = STORES[Backend(query.backend)]

    def rows(operator: StatefulOperator) -> int:
        reader = place.spark.read.format("statestore").options(batchId=query.done.epoch, operatorId=operator.number)
        sides = ["left", "right"] if operator.name == "symmetricHashJoin" else ["none"]
        return sum(reader.option("joinSide", side).load(str(spark)).count() for side in sides)

    with setting(place.spark, FORMAT_KEY, store.checkpoint_format):
        return {str(operator.number): rows(operator) for operator in query.operators}


def rows_of(place: Place, savepoint: Path) -> dict[str, dict[str, int]]:
    """What the savepoint says, by query; as many rows are in its files."""
    said: dict[str, dict[str, int]] = {}
    for query in open_savepoint(savepoint).record.queries:
        uid = query.done.query
        said[uid] = query.done.state_rows
        assert said[uid] == counted(place, query, savepoint / "queries" / uid / "spark"), uid
    return said


@turn(1, of=2)
@pytest.mark.parametrize("backend", ["rocksdb", pytest.param("hashmap", marks=pytest.mark.more)])
def test_a_savepoint_says_how_many_rows_of_state_each_operator_has(place: Place, backend: str):
    place.write(event("01", "sea1"), event("02", "wind2"), event("03", "sand"))
    place.write(event("01", "wind1"), event("02", "sea1"), event("02", "sea1"))
    path = saved(place, three_operators(place, backend), epoch=1)
    assert rows_of(place, path) == {"counts": {"0": 4}, "once": {"0": 5}, "pairs": {"0": 5}}


@turn(1, of=2)
def test_state_is_counted_on_this_disk_and_elsewhere_whatever_file_system_is_the_default(place: Place):
    """On YARN a path without a scheme is one of HDFS, and tasks do not reach the disk of the driver."""
    place.write(event("01", "sea1"), event("02", "wind2"), event("03", "sand"))
    path = saved(place, three_operators(place))
    query = next(each for each in open_savepoint(path).record.queries if each.done.query == "counts")
    spark, store = path / "queries" / "counts" / "spark", STORES[Backend.ROCKSDB]
    conf = {PROVIDER_KEY: store.provider, FORMAT_KEY: store.checkpoint_format}
    with default_file_system(place.spark, "hdfs://127.0.0.1:1"):
        here, there = TaskFiles(None).read, nullcontext(f"file:{spark}")
        found = count_state(place.spark, spark, query, conf, lambda _: None, here)
        assert found == {"operator 0 (stateStoreSave)": 3}
        gone = path / "no-folder-here"
        assert count_state(place.spark, gone, query, conf, lambda _: None, lambda _: there) == found
        assert read_savepoint(path).state("counts", spark=place.spark).count() == 3


@contextmanager
def default_file_system(session: SparkSession, uri: str) -> Iterator[None]:
    java: Any = session.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    hadoop = java.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.defaultFS", uri)
    try:
        yield
    finally:
        hadoop.set("fs.defaultFS", before)


@pytest.mark.more
def test_a_join_of_a_newer_state_format_has_its_rows_counted_once(place: Place):
    place.write(event("01", "sea1"), event("02", "wind2"), event("03", "sand"))
    with setting(place.spark, JOIN_FORMAT, "3"):
        path = saved(place, three_operators(place))
    assert rows_of(place, path)["pairs"] == {"0": 2}


@pytest.mark.more
def test_rows_that_spark_was_told_not_to_count_are_not_in_the_savepoint(place: Place):
    place.write(event("01", "sea1"))
    with setting(place.spark, ROWS_ARE_TRACKED, "false"):
        path = saved(place, three_operators(place))
    assert [query.done.state_rows for query in open_savepoint(path).record.queries] == [{}, {}, {}]
    place.write(event("01", "wind1"))
    run_from(three_operators(place), path)
    assert len(place.files("pairs")) == 1


@pytest.mark.more
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("rocksdb", 2), ("rocksdb", 2)),
        (("rocksdb", 2), ("rocksdb", 3)),
        (("hashmap", 2), ("rocksdb", 3)),
        (("rocksdb", 2), ("hashmap", 2)),
    ],
    ids=lambda form: f"{form[0]}{form[1]}",
)
def test_every_kind_of_state_has_its_rows_counted_also_behind_a_restore(
    place: Place, before: tuple[str, int], after: tuple[str, int]
):
    """Spark counts on from what it finds in the files, which may have been written by a restore."""
    place.write(*(event("01", word) for word in KINDS))
    first = saved(place, every_kind(place, *before))
    rows = rows_of(place, first)
    assert rows["by-hand"] == {"0": len(KINDS)}
    assert rows["total"] == {"0": 1}
    place.write(event("02", KINDS[0]), event("02", "late"))
    run_from(every_kind(place, *after), first)
    again = saved(place, every_kind(place, *after), epoch=1)
    assert rows_of(place, again)["by-hand"] == {"0": len(KINDS) + 1}


@pytest.mark.more
def test_rows_are_counted_anew_where_spark_is_told_to_count_again(place: Place):
    place.write(event("01", "sea1"), event("02", "wind2"))
    with setting(place.spark, ROWS_ARE_TRACKED, "false"):
        run(three_operators(place))
    place.write(event("01", "wind1"))
    assert rows_of(place, saved(place, three_operators(place), epoch=1))["counts"] == {"0": 3}


def counting(place: Place) -> Job:
    job = place.job(state_backend="hashmap", parallelism="2")
    counts = place.words(job).groupBy("word").count()
    job.query("counts", counts, mode="update", sinks=[FileSink("out", place.folder / "out", format="json")])
    return job


def lose_native(savepoint: Path) -> None:
    """What the newest epoch has added to one partition."""
    folder = savepoint / "queries/counts/spark/state/0"
    less, more = sorted(("0", "1"), key=lambda each: (folder / each / "2.delta").stat().st_size)
    for path in (folder / less).glob("*2.delta*"):
        shutil.copyfile(path, folder / more / path.name)


def lose_canonical(savepoint: Path) -> None:
    (path,) = (savepoint / "queries/counts/state/0/default").glob("*.parquet")
    pq.write_table(pq.read_table(path).slice(1), path)


def describe_anew(savepoint: Path) -> None:
    """The manifest proves the files as they are now."""
    record: SavepointRecord = open_savepoint(savepoint).record

    def now(file: SavedFile) -> SavedFile:
        data = (savepoint / file.name).read_bytes()
        return SavedFile(name=file.name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    changed = msgspec.structs.replace(record, files=tuple(map(now, record.files)))
    (savepoint / MANIFEST).write_bytes(encode(changed))


@pytest.mark.parametrize("form", ["native", pytest.param("canonical", marks=pytest.mark.more)])
def test_a_savepoint_that_has_lost_rows_of_state_is_refused_though_all_its_files_fit(
    place: Place, form: Literal["native", "canonical"]
):
    place.write("sea", "sand", "wind")
    place.write("rain")
    handle = counting(place).start()
    wait_until_finished(handle, 1)
    path = handle.stop_with_savepoint(place.folder / "saved", format=form)
    (lose_native if form == "native" else lose_canonical)(path)
    describe_anew(path)
    assert verify(open_savepoint(path)) == []
    before = everything(place)
    error = error_of(lambda: run_from(counting(place), path))
    assert error.code == "TG-RESTORE-STATE"
    assert [text[-4:] for text in (error.expected, error.found)] == [": 4}", ": 3}"]
    assert everything(place) == before


@pytest.mark.more
@pytest.mark.parametrize("said", [{}, {"0": 0}], ids=["an older release", "told not to count"])
def test_where_no_rows_are_recorded_the_files_are_compared(
    place: Place, caplog: pytest.LogCaptureFixture, said: dict[str, int]
):
    place.write(event("01", "sea1"), event("02", "wind2"), event("03", "sand"))
    path = saved(place, three_operators(place))
    record = open_savepoint(path).record
    older = [
        msgspec.structs.replace(each, done=msgspec.structs.replace(each.done, state_rows=said))
        for each in record.queries
    ]
    (path / MANIFEST).write_bytes(encode(msgspec.structs.replace(record, queries=tuple(older))))
    with caplog.at_level("INFO", "tidegate"):
        run_from(three_operators(place), path)
    sides = "operator 0 (symmetricHashJoin) left: 1, operator 0 (symmetricHashJoin) right: 1"
    assert f"rows of state: {sides}" in caplog.text
