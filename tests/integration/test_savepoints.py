"""Savepoints of real jobs: taken beside their epochs, described, proven."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, Row, error_of, setting, wait_until
from tests.integration.shelf import ShelfSink
from tests.jobs.folders import tidegate
from tests.support.file_reading import lists_back_from
from tidegate import FileSink, TidegateError, operate
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.spark_log import parse_commits, parse_offsets
from tidegate.operate.beat import JobState, read_beat
from tidegate.operate.control import Outcome
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.folder import open_savepoint, savepoints_in, verify
from tidegate.sources.files.reader import position_of

FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@pytest.mark.parametrize("backend", ["rocksdb", pytest.param("hashmap", marks=pytest.mark.more)])
def test_a_running_job_is_saved_and_loses_no_epoch(place: Place, backend: str):
    place.write("sea", "sand")
    saved = place.folder / "saved"
    job = place.job(state_backend=backend, parallelism="2", savepoints_dir=str(saved))
    counts = place.words(job).groupBy("word").agg(F.count("*").alias("n"))
    job.query("query", counts, sinks=[FileSink("out", place.folder / "out", format="json")], mode="update")
    handle = job.start()
    try:
        for _ in range(3):
            place.write("sea", "wind")
        first = handle.savepoint(id="one")
        assert first is not None
        assert first.parent == saved
        written = threading.Thread(target=lambda: [place.write("sea") for _ in range(4)])
        written.start()
        command = ["savepoint", "job", str(place.folder / "elsewhere"), "--dir", str(place.checkpoints), "--json"]
        code, text = tidegate(*command)
        written.join()
        wait_until(lambda: place.log("ledger/done")[-1:] == [7], "every epoch done")
    finally:
        handle.stop()
    assert code == 0
    second = Path(json.loads(text)["savepoint"])
    assert second.parent == place.folder / "elsewhere"
    rows = place.files()
    assert sorted(rows) == list(range(8))
    assert [row["n"] for epoch in sorted(rows) for row in rows[epoch] if row["word"] == "sea"] == list(range(1, 9))
    shutil.rmtree(place.checkpoints)
    for path in (first, second):
        savepoint = open_savepoint(path)
        (query,) = savepoint.record.queries
        spark = path / "queries" / "query" / "spark"
        assert verify(savepoint) == []
        assert (query.backend, query.partitions) == (backend, 2)
        assert [(each.name, each.partitions) for each in query.operators] == [("stateStoreSave", 2)]
        assert max(entry_numbers(each.name for each in (spark / "commits").iterdir())) == query.done.epoch
        assert lacks_state(spark / "state" / "0", query.done.epoch, query.done.commits) == []
        epoch = query.done.epoch
        assert state_of(place, spark, epoch) == Counter(row["word"] for row in read_through(place, epoch))
    assert open_savepoint(first).record.queries[0].done.epoch >= 0


def test_the_rows_of_a_job_do_not_wait_while_its_state_is_copied(place: Place, monkeypatch: pytest.MonkeyPatch):
    """However long the copy takes: here it ends only behind three epochs that come while it is under way."""

    copied = Copying.copied

    def behind_three_epochs(copying: Copying, size_bytes: int) -> None:
        if not copying.copied_bytes:
            for _ in range(3):
                place.write("wind")
            wait_until(lambda: place.log("ledger/done")[-1:] == [3], "three epochs beside the copy")
        copied(copying, size_bytes)

    monkeypatch.setattr(Copying, "copied", behind_three_epochs)
    place.write("sea")
    job = place.job(savepoints_dir=str(place.folder / "saved"))
    counts = place.words(job).groupBy("word").agg(F.count("*").alias("n"))
    job.query("query", counts, sinks=[FileSink("out", place.folder / "out", format="json")], mode="update")
    handle = job.start()
    try:
        wait_until(lambda: place.log("ledger/done")[-1:] == [0], "the first epoch")
        path = handle.savepoint()
    finally:
        handle.stop()
    assert path is not None
    assert open_savepoint(path).record.queries[0].done.epoch == 0
    assert [row["n"] for epoch in range(1, 4) for row in place.files()[epoch]] == [1, 2, 3]


def state_of(place: Place, spark: Path, epoch: int) -> dict[str, int]:
    """The counts that the state holds after an epoch, read by Spark from nothing but this folder.

    Spark's reader takes the names of the state files from its session, not from the checkpoint: with the ids of the
    commit log in format 2, which only rocksdb has.
    """
    commits = parse_commits((spark / "commits" / str(epoch)).read_bytes())
    assert commits is not None
    with setting(place.spark, FORMAT_KEY, "1" if commits.state_ids is None else "2"):
        rows = place.spark.read.format("statestore").option("batchId", epoch).load(str(spark))
        return {row["word"]: row["n"] for row in rows.selectExpr("key.word AS word", "value.count AS n").collect()}


def read_through(place: Place, epoch: int) -> list[Row]:
    """The rows of the input's first files, one file an epoch."""
    files = sorted(place.input.iterdir())[: epoch + 1]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def lacks_state(operator: Path, epoch: int, commits: bytes) -> list[str]:
    """The state files that Spark goes on from after an epoch, by its commit log, and that are not there."""
    entry = parse_commits(commits)
    assert entry is not None
    ids = json.loads(entry.state_ids or '{"0": [[null], [null]]}')["0"]
    wanted = [
        (partition, f"{epoch + 1}.delta" if each is None else f"{epoch + 1}_{each}.")
        for partition, (each,) in enumerate(ids)
    ]
    return [
        name
        for partition, name in wanted
        if not any(path.name.startswith(name) for path in (operator / str(partition)).iterdir())
    ]


def answered(ticket: operate.Ticket) -> operate.Answer:
    answer = ticket.wait(60).answer
    assert answer is not None
    return answer


def test_a_job_without_a_folder_for_savepoints_says_so_and_runs_on(place: Place):
    place.write("sea")
    job = place.job()
    job.query("query", place.words(job), sinks=[FileSink("out", place.folder / "out", format="json")])
    handle = job.start()
    try:
        with pytest.raises(TidegateError) as caught:
            handle.savepoint()
        assert caught.value.code == "TG-REQUEST-REFUSED"
        answer = answered(operate.open(place.checkpoints, "job").savepoint(id="one"))
        assert (answer.outcome, "savepoints.dir" in answer.detail) == (Outcome.REFUSED, True)
        place.write("sand")
        wait_until(lambda: place.log("ledger/done")[-1:] == [1], "the next epoch done")
    finally:
        handle.stop()
    assert place.files() == {0: [{"word": "sea"}], 1: [{"word": "sand"}]}


def test_a_job_that_is_stopped_waits_for_no_savepoint_and_whoever_takes_one_hears_why(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    arrived, opened = threading.Event(), threading.Event()

    def hang(step: str) -> None:
        if step == "held" and not opened.is_set():
            arrived.set()
            assert opened.wait(60)

    monkeypatch.setattr("tidegate.spark.starting.Starting._reach", lambda _, step: hang(step))
    monkeypatch.setattr("tidegate.spark.savepointing._CALLED_OFF_WITHIN_SECONDS", 0.5)
    saved = place.folder / "saved"
    place.write("sea")
    job = place.job(savepoints_dir=str(saved))
    job.query("query", place.words(job), sinks=[FileSink("out", place.folder / "out", format="json")])
    handle = job.start()
    with ThreadPoolExecutor(2) as beside:
        own = beside.submit(error_of, lambda: handle.savepoint(id="one"))
        assert arrived.wait(60)
        asked = beside.submit(lambda: answered(operate.open(place.checkpoints, "job").savepoint(id="two")))
        wait_until(lambda: "two" in handle.savepoints()._begun, "the second one begun")
        handle.stop()
        assert own.result().code == "TG-SAVEPOINT-CUT-OFF"
        assert (asked.result().outcome, "TG-SAVEPOINT-CUT-OFF" in asked.result().detail) == (Outcome.FAILED, True)
    assert error_of(lambda: handle.savepoint(id="three")).code == "TG-REQUEST-REFUSED"
    assert list(saved.glob("savepoint-*")) == []

    place.write("sand")
    again = job.start()  # while what was called off still hangs
    opened.set()
    try:
        wait_until(lambda: place.log("ledger/done")[-1:] == [1], "the next epoch done")
        path = again.savepoint(id="one")
    finally:
        again.stop()
    assert path is not None
    assert verify(open_savepoint(path)) == []
    assert place.files() == {0: [{"word": "sea"}], 1: [{"word": "sand"}]}


def test_a_job_ends_with_a_savepoint_of_its_last_epoch_and_the_next_start_goes_on_behind_it(place: Place):
    saved, file = place.folder / "saved", place.folder / "file"
    file.write_text("no folder")
    where = ["--dir", str(place.checkpoints), "--json"]
    job = place.job(parallelism="1", savepoints_dir=str(saved))
    counts = place.words(job).groupBy("word").agg(F.count("*").alias("n"))
    job.query("query", counts, sinks=[FileSink("out", place.folder / "out", format="json")], mode="update")
    place.write("sea", "sand")
    handle = job.start()
    wait_until(lambda: place.log("ledger/done"), "an epoch done")
    code, text = tidegate("stop", "job", "-p", str(file), *where)
    assert (code, json.loads(text)["outcome"], handle.status().running) == (4, "refused", True)
    for _ in range(4):
        place.write("sea")
    code, text = tidegate("stop", "job", "-p", "--id", "one", *where)
    answer = json.loads(text)
    last = place.log("ledger/done")[-1]
    assert (code, answer["outcome"], answer["epochs"]) == (0, "done", {"query": last})
    assert handle.wait(60)
    beat = read_beat(place.checkpoints / "job")
    assert beat is not None
    assert (beat.state, beat.savepoint) == (JobState.STOPPED, answer["savepoint"])
    assert error_of(lambda: handle.stop_with_savepoint(id="two")).code == "TG-REQUEST-REFUSED"

    again = job.start()
    place.write("sea", "wind")
    wait_until(lambda: {"word": "sea", "n": 6} in newest_done(place)[1], "every row done")
    newest, _ = newest_done(place)
    second = again.cancel_with_savepoint(id="two")
    beat = read_beat(place.checkpoints / "job")
    assert beat is not None
    assert (beat.state, beat.savepoint) == (JobState.CANCELED, str(second))
    rows = place.files()
    through = [read_by(place, second / "queries" / "query" / "spark", epoch) for epoch in range(newest + 1)]
    befores = [Counter[str](), *through[:-1]]
    assert {epoch: sorted((row["word"], row["n"]) for row in rows[epoch]) for epoch in rows} == {
        epoch: sorted((word, after[word]) for word in after - before)
        for epoch, (before, after) in enumerate(zip(befores, through, strict=True))
    }
    counted = [row["n"] for epoch in sorted(rows) for row in rows[epoch] if row["word"] == "sea"]
    assert (counted, counted[-1]) == (sorted(set(counted)), 6)
    shutil.rmtree(place.checkpoints)
    for path, epoch in ((Path(answer["savepoint"]), last), (second, newest)):
        savepoint = open_savepoint(path)
        assert (verify(savepoint), savepoint.record.queries[0].done.epoch) == ([], epoch)
        spark = path / "queries" / "query" / "spark"
        assert state_of(place, spark, epoch) == read_by(place, spark, epoch)


def newest_done(place: Place) -> tuple[int, list[Row]]:
    """The newest epoch that is done, and its rows."""
    done = place.log("ledger/done")
    return (done[-1], place.files()[done[-1]]) if done else (-1, [])


def read_by(place: Place, spark: Path, epoch: int) -> Counter[str]:
    """The words of the files that were read up to an epoch, by the lists of them: a stop between an entry of that
    log and the epoch's offsets makes one epoch of two files."""
    offsets = parse_offsets((spark / "offsets" / str(epoch)).read_bytes())
    assert offsets is not None
    entries = [file for _, file in lists_back_from(spark / "sources" / "0", position_of(offsets.positions[0] or ""))]
    read = [json.loads(line)["path"] for entry in entries for line in entry.read_text().splitlines()[2:]]
    files = [place.input / path.rpartition("/")[2] for path in read]
    return Counter(json.loads(line)["word"] for file in files for line in file.read_text().splitlines())


def test_a_stop_takes_a_savepoint_unasked_where_the_job_has_a_folder_for_them_and_says_so(place: Place):
    saved = place.folder / "saved"
    stop = ["stop", "job", "--dir", str(place.checkpoints), "--json", "--id"]
    job = place.job(savepoints_dir=str(saved))
    job.query("query", place.words(job), sinks=[FileSink("out", place.folder / "out", format="json")])
    place.write("sea")
    handle = job.start()
    wait_until(lambda: place.log("ledger/done") == [0], "the epoch done")
    code, text = tidegate(*stop, "one")
    answer = json.loads(text)
    assert (code, answer["outcome"], answer["epochs"]) == (0, "done", {"query": 0})
    assert verify(open_savepoint(Path(answer["savepoint"]))) == []
    assert handle.wait(60)
    assert tidegate(*stop, "one") == (0, text)
    assert tidegate(*stop, "two")[0] == 4  # it does not run
    assert [path.name for path in saved.iterdir()] == [Path(answer["savepoint"]).name]

    saved.rename(place.folder / "moved")
    saved.write_text("no folder")
    again = job.start()
    code, text = tidegate(*stop, "three")
    assert (code, "stop job -p DIR" in text, again.status().running) == (4, True, True)
    saved.unlink()
    again.stop()
    assert not saved.exists()


def test_where_a_decided_epoch_waits_for_its_sink_no_savepoint_is_taken_of_the_end(place: Place):
    saved = place.folder / "saved"
    place.write("sea")
    job = place.job(stop_timeout="300ms")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: place.log("ledger/decided") == [0], "a decision")
    answer = answered(operate.open(place.checkpoints, "job").stop_with_savepoint(str(saved), id="one"))
    assert (answer.outcome, answer.savepoint) == (Outcome.PENDING, None)
    assert error_of(handle.wait).code == "TG-SINK-UNAVAILABLE"
    stop = ["stop", "job", "-p", str(saved), "--id", "one", "--dir", str(place.checkpoints)]
    code, said = tidegate(*stop)
    assert (code, "TG-SAVEPOINT-REFUSED" in said) == (4, True)
    assert list(saved.iterdir()) == []
    sink.moods.busy = 0
    job.start().stop()
    assert (tidegate(*stop)[0], sink.rows()) == (0, ["sea"])
    ([savepoint], _) = savepoints_in(saved)
    assert (verify(savepoint), savepoint.record.queries[0].done.epoch) == ([], 0)


def test_a_job_whose_last_savepoint_does_not_fit_on_the_disk_is_stopped_and_the_command_takes_it_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    def be_full(step: str) -> None:
        if step == "copied":
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tidegate.spark.starting.Starting._reach", lambda _, step: be_full(step))
    saved = place.folder / "saved"
    place.write("sea")
    job = place.job(checkpointing_retention="delete")
    job.query("query", place.words(job), sinks=[FileSink("out", place.folder / "out", format="json")])
    handle = job.start()
    wait_until(lambda: place.log("ledger/done") == [0], "the epoch done")
    cancel = ["cancel", "job", "-s", str(saved), "--id", "one", "--dir", str(place.checkpoints)]
    code, said = tidegate(*cancel)
    assert (code, "the job is CANCELED, without a savepoint: TG-STORAGE-FULL" in said) == (1, True)
    assert error_of(handle.wait).code == "TG-STORAGE-FULL"
    beat = read_beat(place.checkpoints / "job")
    assert beat is not None
    assert (beat.state, beat.error.partition(":")[0]) == (JobState.CANCELED, "TG-STORAGE-FULL")
    assert list(saved.iterdir()) == []
    assert tidegate(*cancel)[0] == 0  # its checkpoints were not given up
    ([savepoint], _) = savepoints_in(saved)
    assert (verify(savepoint), savepoint.record.queries[0].done.epoch) == ([], 0)
