"""Savepoints of a job with channels: a savepoint is one cut across them. The job resumes from it here and elsewhere."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from pyspark.sql import functions as F

from tests.integration.place import Place, run, wait_until
from tests.support.feeding import repeated
from tests.support.today import turn
from tidegate import FileSink, Job, Restore, SQLiteSink
from tidegate.savepoints.folder import open_savepoint


def counting(place: Place, name: str = "job", out: str = "out.db", seconds: float = 0.0, **settings: object) -> Job:
    """One query passes words on; another one counts them, after this time for each word."""

    @F.udf("string")
    def after_a_while(word: str) -> str:
        time.sleep(seconds)
        return word

    job = place.job(name, **settings)
    words = job.channel("words")
    job.query("write", place.words(job, "lines"), sinks=[words, FileSink("seen", place.folder / f"seen-{name}")])
    read = job.source("words-in", words)
    slow = read.select(after_a_while("word").alias("word")) if seconds else read
    table = SQLiteSink("table", place.folder / out, table="words", key="word")
    job.query("count", slow.groupBy("word").count(), mode="update", sinks=[table])
    return job


def stopped_with_savepoint(place: Place) -> Path:
    """There are three files. The slow reader has read one of them when the stop is requested."""
    place.write("sea")
    handle = counting(place, seconds=1.5).start()
    wait_until(lambda: place.log("spark/offsets", "count"), "the first epoch of the reader")
    place.write("sea", "sand")
    place.write("ice")
    wait_until(lambda: len(place.log("ledger/done", "write")) == 3, "more rows behind it")
    saved = handle.stop_with_savepoint(place.folder / "saved")
    assert place.table() == [("ice", 1), ("sand", 1), ("sea", 2)]
    return Path(saved)


@turn(2, of=4)
def test_a_job_resumes_elsewhere_from_the_savepoint_of_its_stop(place: Place) -> None:
    """Under another name, with other partitions and another backend; there its channel is empty."""
    saved = stopped_with_savepoint(place)
    place.write("sea", "wind")
    elsewhere = str(place.folder / "elsewhere")
    for _ in range(2):
        job = counting(place, "copy", "copy.db", checkpointing_dir=elsewhere, parallelism=3, state_backend="hashmap")
        job.start(until="caught-up", savepoint=saved).wait()
    assert place.table(path="copy.db") == [("sea", 3), ("wind", 1)], "the words that have come since"
    run(counting(place))
    assert place.table() == [("ice", 1), ("sand", 1), ("sea", 3), ("wind", 1)], (
        "the first job resumes from its own checkpoint"
    )


@turn(2, of=4)
def test_rows_of_the_timeline_that_a_restore_gives_up_are_not_read(place: Place) -> None:
    saved = stopped_with_savepoint(place)
    for word in ("sea", "wind"):
        place.write(word)
        run(counting(place))
    assert place.table() == [("ice", 1), ("sand", 1), ("sea", 3), ("wind", 1)]
    for rewind in ("monday", "tuesday"):
        job = counting(place)
        job.start(until="caught-up", savepoint=Restore(str(saved), rewind=rewind)).wait()
        assert place.table() == [("ice", 1), ("sand", 1), ("sea", 3), ("wind", 1)], rewind
    place.write("sea")
    run(counting(place))
    assert place.table() == [("ice", 1), ("sand", 1), ("sea", 4), ("wind", 1)]


@turn(0, of=4)
def test_a_savepoint_waits_until_a_slow_reader_stands_at_the_barrier(place: Place) -> None:
    """The writer runs on meanwhile: what it writes behind the barrier is not in the savepoint."""
    place.write("sea")
    handle = counting(place, seconds=2.0).start()
    try:
        wait_until(lambda: handle.status().queries[1].rows == 1, "the first row behind the channel")
        before = place.log("spark/offsets", "count")[-1]
        place.write("sand", "sand")
        wait_until(lambda: place.log("spark/offsets", "count")[-1] > before, "the next epoch of the reader")
        with ThreadPoolExecutor() as pool:
            saved = pool.submit(handle.savepoint, place.folder / "saved")
            place.write("ice")
            wait_until(lambda: len(place.log("ledger/done", "write")) == 3, "a later epoch of the writer")
            epochs = saved_epochs(saved.result())
        wait_until(lambda: handle.status().queries[1].rows == 3, "what was held flows on")
    finally:
        handle.stop()
    assert place.table() == [("ice", 1), ("sand", 2), ("sea", 1)]
    assert epochs["count"] == before + 1


@turn(0, of=2)
def test_a_savepoint_of_a_diamond_under_load_is_restored_elsewhere_with_exact_outputs(place: Place) -> None:
    """Two branches of different speed meet in one query. Files come all the time."""
    with fed(place, files=40, every_seconds=0.1):
        handle = diamond(place).start()
        try:
            wait_until(lambda: handle.status().queries[2].rows > 4, "rows behind both branches")
            saved = [handle.savepoint(place.folder / "saved") for _ in range(2)]
            wait_until(lambda: handle.status().queries[2].rows > 20, "the job runs on")
        finally:
            handle.stop()
    written = words_of(place)
    for number, each in enumerate(saved):
        elsewhere = str(place.folder / f"elsewhere-{number}")
        settings = {"parallelism": 3, "state_backend": "hashmap"} if number else {}
        job = diamond(place, "copy", f"copy-{number}.db", checkpointing_dir=elsewhere, **settings)
        job.start(until="caught-up", savepoint=each).wait()
        table = dict(place.table(path=f"copy-{number}.db"))
        assert {word: count for word, count in table.items() if count != written[word]} == {}
        assert table.get("sea") == written["sea"]
    run(diamond(place))
    assert dict(place.table()) == written


@contextmanager
def fed(place: Place, files: int, every_seconds: float) -> Iterator[None]:
    """Files of words come all the time, so many at most; the first ones are there before the block."""
    numbers = count()

    def write() -> None:
        place.write("sea", f"stone {next(numbers) % 5}", "sand")

    with repeated(write, times=files, every_seconds=every_seconds):
        wait_until(lambda: len(list(place.input.iterdir())) > 2, "the first files")
        yield


def words_of(place: Place) -> Counter[str]:
    """How often each word is in the files."""
    return Counter(row["word"] for path in place.input.glob("*.json") for row in map(json.loads, path.open()))


def diamond(place: Place, name: str = "job", out: str = "out.db", **settings: object) -> Job:
    """One query writes a channel; a fast and a slow one read it, and pass on short and long words; the last one counts
    all of them.
    """

    @F.udf("string")
    def slow(word: str) -> str:
        time.sleep(0.01)
        return word

    job = place.job(name, **settings)
    words, short, long = job.channel("words"), job.channel("short"), job.channel("long")
    job.query("write", place.words(job, "lines"), sinks=[words])
    job.query("fast", job.source("fast-in", words).where("length(word) <= 4"), sinks=[short])
    after = job.source("slow-in", words).where("length(word) > 4").select(slow("word").alias("word"))
    job.query("slow", after, sinks=[long])
    both = job.source("short-in", short).unionByName(job.source("long-in", long))
    table = SQLiteSink("table", place.folder / out, table="words", key="word")
    job.query("count", both.groupBy("word").count(), mode="update", sinks=[table])
    return job


def saved_epochs(folder: Path | None) -> dict[str, int]:
    """The saved epoch of each query."""
    assert folder is not None
    return {each.done.query: each.done.epoch for each in open_savepoint(folder).record.queries}


@turn(0, of=4)
def test_a_cancel_with_a_savepoint_reads_the_channels_to_their_end(place: Place) -> None:
    """All queries end at once, the reader in the middle of an epoch; elsewhere the job resumes exactly."""
    with fed(place, files=10, every_seconds=0.2):
        handle = counting(place, seconds=0.3).start()
        wait_until(lambda: handle.status().queries[1].rows > 2, "rows behind the channel")
        saved = handle.cancel_with_savepoint(place.folder / "saved")
    place.write("sea")  # the writer may have read all files before
    elsewhere = str(place.folder / "elsewhere")
    job = counting(place, "copy", "copy.db", checkpointing_dir=elsewhere)
    job.start(until="caught-up", savepoint=saved).wait()
    written = words_of(place)
    table = dict(place.table(path="copy.db"))
    assert table
    assert {word: count for word, count in table.items() if count != written[word]} == {}
    run(counting(place))
    assert dict(place.table()) == written
