"""What settings do, seen from outside: in the files that are left (which kind, how many, how large), and in times."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.integration.shelf import ShelfSink
from tests.support.today import turn
from tidegate import FileSink, FileSource, SQLiteSink


def count(place: Place, **settings: str | float) -> None:
    """Count the words of the input into a table, one file an epoch, until all is read."""
    job = place.job("job", **settings)
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("query", place.words(job).groupBy("word").count(), mode="update", sinks=[table])
    run(job)


def state(place: Place) -> Path:
    return place.query() / "spark" / "state" / "0"


def kinds(place: Place) -> set[str]:
    """How the state files of versions end; beside them stand checksums and RocksDB's own files."""
    return {path.suffix for path in state(place).rglob("[0-9]*.*")} - {".crc", ".sst"}


BACKENDS = {
    "rocksdb": ({}, {".changelog"}),
    "rocksdb without a changelog": ({"state_changelog": False}, {".zip"}),
    "hashmap": ({"state_backend": "hashmap"}, {".delta"}),
}


@turn(0, of=2)
@pytest.mark.parametrize("case", BACKENDS)
def test_each_backend_leaves_files_of_its_own_and_counts_alike(place: Place, case: str):
    settings, left = BACKENDS[case]
    place.write("sea", "sand")
    place.write("sea")
    count(place, **settings)
    place.write("wind", "sea")
    count(place, **settings)
    assert place.table() == [("sand", 1), ("sea", 3), ("wind", 1)]
    assert kinds(place) == left


def snapshot_bytes(place: Place, **settings: str | float) -> list[int]:
    """By epoch, how many bytes of RocksDB's files it added: a large one first, then one word each."""
    place.write(*(f"{number:05d}" + "x" * 100 for number in range(5000)))
    sizes: list[int] = []
    for word in ("", "00001", "00002"):
        if word:
            place.write(word + "x" * 100)
        count(place, parallelism=1, state_changelog=False, **settings)
        sizes.append(sum(path.stat().st_size for path in state(place).rglob("*.sst")))
    return [after - before for before, after in zip([0, *sizes], sizes, strict=False)]


@turn(1, of=2)
def test_an_incremental_snapshot_adds_what_is_new_and_another_one_everything(place: Place):
    (place.folder / "other").mkdir()
    other = Place(place.folder / "other", place.spark)
    first, second, third = snapshot_bytes(place)
    assert max(second, third) < first / 10
    first, second, third = snapshot_bytes(other, state_incremental=False)
    assert min(second, third) > first / 3, "compacted, and so compressed better, but whole"


def test_the_first_epoch_fixes_the_parallelism_and_a_change_is_said(place: Place, caplog: pytest.LogCaptureFixture):
    place.write("sea", "sand")
    count(place, parallelism=3)
    assert partitions(place) == ["0", "1", "2"]
    assert "parallelism" not in caplog.text
    place.write("sea", "wind")
    with caplog.at_level(logging.WARNING, "tidegate"):
        count(place, parallelism=5)
    assert partitions(place) == ["0", "1", "2"]
    assert place.table() == [("sand", 1), ("sea", 2), ("wind", 1)]
    assert "parallelism = 5 does nothing: the first epoch has fixed 3 partitions" in caplog.text
    assert "tidegate run -s SAVEPOINT -D parallelism=5 APP" in caplog.text


def partitions(place: Place) -> list[str]:
    return sorted(path.name for path in state(place).iterdir() if path.name.isdigit())


@turn(0, of=2)
@pytest.mark.parametrize(("retained", "kept"), [(1, 10), (9, 12)])
def test_spark_keeps_as_many_epochs_as_are_retained_and_ten_at_least(place: Place, retained: int, kept: int):
    job = place.job(checkpointing_retained=retained)
    table = SQLiteSink("table", place.folder / "out.db", table="words")
    job.query("query", place.words(job), sinks=[table])
    for number in range(15):
        place.write(str(number))
    handle = job.start()
    wait_until_finished(handle, 14)
    wait_until(lambda: place.log("spark/commits")[0] >= 14 - kept, "the older entries gone")
    handle.stop()
    assert place.log("spark/commits") == list(range(14 - kept, 15))


@pytest.mark.parametrize(("before", "after"), [("rocksdb", "hashmap"), ("hashmap", "rocksdb")])
def test_another_backend_than_the_checkpoints_is_refused(place: Place, before: str, after: str):
    place.write("sea")
    count(place, state_backend=before)
    files = sorted(place.query().rglob("*"))
    error = error_of(lambda: count(place, state_backend=after))
    assert error.code == "TG-STATE-FORMAT"
    assert f"state of {before}" in error.found
    assert f"set state.backend = {before}, or start under another job name" in error.next_step
    assert sorted(place.query().rglob("*")) == files
    place.write("sea")
    count(place, state_backend=before)
    assert place.table() == [("sea", 2)]


def test_a_changelog_may_be_switched_off_and_on_between_starts(place: Place):
    for changelog in (True, False, True):
        place.write("sea", "wind")
        count(place, state_changelog=changelog)
    assert place.table() == [("sea", 3), ("wind", 3)]


# --- hashmap -----------------------------------------------------------------------------------------------


class Counter(StatefulProcessor):
    """A processor that would count; it is never run."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        yield from rows

    def close(self) -> None:
        pass


def with_a_processor(words: DataFrame) -> DataFrame:
    return words.groupBy("word").transformWithStateInPandas(Counter(), "word string", "Update", "None")


def test_what_hashmap_cannot_keep_is_refused_before_anything_is_written(place: Place):
    place.write("sea")
    job = place.job(state_backend="hashmap")
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("query", with_a_processor(place.words(job)), mode="update", sinks=[table])
    error = error_of(job.start)
    assert error.code == "TG-QUERY-REFUSED"
    assert "TransformWithState" in error.found
    assert "state.backend = rocksdb" in error.next_step
    assert not place.query().exists()


def test_the_limits_of_hashmap_are_said_at_the_start(place: Place, caplog: pytest.LogCaptureFixture):
    place.write("sea")
    count(place, state_backend="hashmap")
    assert "a query whose state is random or depends on time needs rocksdb" in caplog.text


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_after_an_epoch_was_cut_off_hashmap_state_needs_a_new_process(place: Place, backend: str):
    refusal = place.folder / "refusal"
    refusal.touch()
    sink = ShelfSink("shelf", place.folder, refuses=refusal)

    def words() -> None:
        job = place.job(state_backend=backend)
        job.query("query", place.words(job).groupBy("word").count(), mode="update", sinks=[sink])
        run(job)

    place.write("sea")
    assert error_of(words).code == "TG-EPOCH-FAILED"
    refusal.unlink()
    if backend == "rocksdb":
        words()
        assert place.log("ledger/done") == [0]
    else:
        assert error_of(words).code == "TG-PROCESS-SPENT"
        assert place.log("ledger/runs") == [1], "nothing was begun"


def test_a_stopped_hashmap_job_goes_on_in_the_same_process(place: Place):
    job = place.job(state_backend="hashmap")
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("query", place.words(job).groupBy("word").count(), mode="update", sinks=[table])
    for number in range(3):
        place.write("sea")
        handle = job.start()
        wait_until_finished(handle, number)
        handle.stop()
    assert place.table() == [("sea", 3)]


# --- times -------------------------------------------------------------------------------------------------

HOLDER = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("wait", [0.3, 2.0])
def test_a_start_waits_for_an_old_jvm_as_long_as_the_lease_says(place: Place, wait: float):
    place.write("sea")
    locks = place.checkpoints / "job" / "locks"
    locks.mkdir(parents=True)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(locks / "jvm.lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        begun = time.monotonic()
        assert error_of(lambda: count(place, lease_timeout=wait)).code == "TG-DRIVER-ALIVE"
        assert wait <= time.monotonic() - begun < wait + 1.5
        holder.kill()
    count(place)


def test_a_stop_without_a_time_of_its_own_waits_as_long_as_the_setting_says(place: Place):
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job = place.job(stop_timeout="1s")
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: sink.moods.commits > 1, "commits that were put off")
    begun = time.monotonic()
    assert error_of(handle.stop).code == "TG-SINK-UNAVAILABLE"
    assert 1 <= time.monotonic() - begun < 10


def test_epochs_begin_no_closer_than_the_interval(place: Place):
    """Spark begins an epoch at multiples of the interval, but for one behind a longer one, such as a cold first."""
    for number in range(5):
        place.write(str(number))
    job = place.job(checkpointing_interval="1s")
    job.query("query", place.words(job), sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    handle = job.start()
    wait_until_finished(handle, 4)
    handle.stop()
    begun = [(place.query() / "spark/offsets" / str(epoch)).stat().st_mtime for epoch in (2, 3, 4)]
    assert all(later - earlier > 0.7 for earlier, later in pairwise(begun))


@pytest.mark.parametrize(
    ("given", "epochs"),
    [({"checkpointing_backlog_interval": "10ms"}, 2), ({}, 1), ({"checkpointing_backlog_interval": 0}, 1)],
    ids=["10ms", "5s, the default", "no limit"],
)
def test_epochs_with_a_backlog_are_as_long_as_is_set(place: Place, given: dict[str, Any], epochs: int):
    """Two files, each larger than what a first epoch takes in ten milliseconds."""
    for name in "ab":
        place.write(*([name * 1000] * 150))
    job = place.job(**given)
    words = job.source("words", FileSource(str(place.input), format="json", schema="word string"))
    job.query("query", words, sinks=[FileSink("files", place.folder / "out", format="json")])
    run(job)
    assert [len(rows) for rows in place.files().values()] == [300 // epochs] * epochs
