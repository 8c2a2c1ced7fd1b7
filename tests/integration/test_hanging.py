"""What waits or hangs: it holds up nothing else, and what may still write keeps the job's locks."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any, cast

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.integration.place import Place, error_of, wait_until
from tests.integration.shelf import ShelfSink
from tidegate import FileSink, FileSource, Job
from tidegate.checkpoints.locks import jvm_lock_is_free
from tidegate.checkpoints.sync import CheckpointSync
from tidegate.core.errors import Code
from tidegate.spark import epoch_watch


def shelf_job(place: Place, **settings: str | float) -> Job:
    job = place.job("job", **settings)
    job.query("query", place.words(job), sinks=[ShelfSink("shelf", place.folder)])
    return job


@pytest.mark.more
def test_an_epoch_is_cut_off_in_time_while_the_sink_of_another_query_is_down(place: Place):
    """The stream of the first query was stopped, and its end waits for the sink; the other one's task would sleep for
    an hour."""
    mined = str(place.folder / "mined")

    def step(word: str) -> str:
        import time
        from pathlib import Path

        if Path(mined).exists():
            Path(mined).unlink()
            time.sleep(3600)
        return word

    later = place.folder / "later"
    later.mkdir()
    (place.folder / "mined").touch()
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job = place.job(checkpointing_timeout="10s", checkpointing_tolerable_failures=99)
    job.query("waits", place.words(job), sinks=[sink])
    words = job.source("later", FileSource(str(later), format="json", schema="word string"))
    slow = words.select(F.udf(step, "string")("word").alias("word"))
    job.query("sleeps", slow, sinks=[FileSink("files", place.folder / "out", format="json")])
    handle = job.start()
    wait_until(lambda: sink.moods.commits, "a commit that was put off")
    [waits] = [query for query in place.spark.streams.active if ".waits " in query.name]
    waits.stop()
    (later / "0.json").write_text('{"word": "sand"}\n')
    wait_until(lambda: not (place.folder / "mined").exists(), "the task that sleeps")
    begun = time.monotonic()
    wait_until(lambda: not place.spark.streams.active or time.monotonic() - begun > 30, "the end of the second query")
    in_time = not place.spark.streams.active
    sink.moods.busy = 0
    assert in_time
    wait_until(place.words_out, "the same input again")
    handle.stop()
    assert (sink.rows(), place.words_out()) == (["sea"], {0: ["sand"]})


def test_a_stop_does_not_wait_for_ever_for_an_epoch_that_hangs_in_a_sync(place: Place, monkeypatch: pytest.MonkeyPatch):
    hangs, goes_on = threading.Event(), threading.Event()
    sync = CheckpointSync.sync

    def hang(self: CheckpointSync) -> Any:
        hangs.set()
        goes_on.wait(60)
        return sync(self)

    monkeypatch.setattr(CheckpointSync, "sync", hang)
    monkeypatch.setattr(epoch_watch, "CUT_ENDS_WITHIN_SECONDS", 1.0)
    place.write("sea")
    handle = shelf_job(place).start()
    assert hangs.wait(60)
    begun = time.monotonic()
    handle.ask_to_stop(0.3)
    wait_until(lambda: handle.error() is not None or time.monotonic() - begun > 20, "the end")
    error = handle.error()
    goes_on.set()
    assert error is not None, "the stop waited for what hangs"
    assert "TG-EPOCH-STUCK" in str(error)
    assert "epoch 0" in str(error)
    assert "its record is being written" in str(error)
    wait_until(lambda: not place.spark.streams.active, "the end of the stream")
    assert error_of(shelf_job(place).start).catalogue_entry is Code.DRIVER_ALIVE


def test_a_start_that_did_not_come_back_keeps_the_locks_for_the_life_of_the_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """Spark may start the query yet: its answer was lost. Nobody holds on to the job in this program."""

    def lose(self: DataStreamWriter) -> None:
        raise ConnectionResetError("no answer")

    place.write("sea")
    with monkeypatch.context() as patched:
        patched.setattr(DataStreamWriter, "start", lose)
        with pytest.raises(ConnectionResetError):
            shelf_job(place).start()
    cast("Any", place.spark)._jvm.System.gc()
    gc.collect()
    cast("Any", place.spark)._jvm.System.gc()
    time.sleep(0.5)
    folder = place.checkpoints / "job"
    assert error_of(shelf_job(place).start).catalogue_entry is Code.DRIVER_ALIVE
    assert not jvm_lock_is_free(folder)
