"""The graph of a job changes through a savepoint: queries and channels are added, removed, renamed, put between."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from tests.crash.bank_checker import record
from tests.integration.place import Place, error_of, run, wait_until
from tests.support.feeding import repeated
from tests.support.today import sampled, turn
from tidegate import FileSink, Job, Restore, SQLiteSink
from tidegate.channels import log as channel_log
from tidegate.channels.log import ChannelLog
from tidegate.channels.sink import ChannelSink
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.errors import Code
from tidegate.storages.schemes import Folder


def readers(
    place: Place, *names: str, writer: str = "write", channel: str = "words", suffix: str = "", **settings: object
) -> Job:
    """A job whose writer has these readers, each with files of its own. `suffix`: behind the uid of each source. The
    reader `new-read` has the source and the files of `read`.
    """
    job = place.job("job", **settings)
    words = job.channel(channel)
    job.query(writer, place.words(job, "lines"), sinks=[words])
    for name in names:
        rows = job.source(f"{name.removeprefix('new-')}-in{suffix}", words)
        files = FileSink(f"{name}-files", place.folder / name.removeprefix("new-"), format="json")
        job.query(name, rows, sinks=[files])
    return job


def words_of(place: Place, reader: str) -> list[str]:
    return sorted(word for words in place.words_out(reader).values() for word in words)


def saved(place: Place, job: Job, is_read: Callable[[], object]) -> str:
    """The savepoint of its end, when it has read the input."""
    handle = job.start()
    try:
        wait_until(is_read, "the rows behind the channel")
    finally:
        folder = handle.stop_with_savepoint(place.folder / "saved")
    return str(folder)


def restored(job: Job, savepoint: str, **wish: object) -> None:
    job.start(until="caught-up", savepoint=Restore(savepoint, **wish)).wait()  # pyright: ignore[reportArgumentType]


@turn(0, of=3)
def test_a_reader_that_a_restore_adds_begins_with_the_rows_behind_the_savepoint(place: Place) -> None:
    place.write("sea", "sand")
    savepoint = saved(place, readers(place, "old"), lambda: len(words_of(place, "old")) == 2)
    place.write("wind")
    restored(readers(place, "old", "added"), savepoint)
    assert (words_of(place, "old"), words_of(place, "added")) == (["sand", "sea", "wind"], ["wind"])
    place.write("ice")
    run(readers(place, "old", "added"))
    assert (words_of(place, "old")[0], words_of(place, "added")) == ("ice", ["ice", "wind"])


@pytest.mark.parametrize(
    ("by_savepoint", "comes_back"),
    sampled(
        [
            pytest.param(True, Code.SINK_AHEAD, id="by a restore"),
            pytest.param(False, Code.CHANNEL_LOST, id="by a plain start"),
        ]
    ),
)
def test_a_reader_that_is_removed_holds_no_row_back_and_cannot_come_back_behind_them(
    place: Place, monkeypatch: pytest.MonkeyPatch, by_savepoint: bool, comes_back: Code
) -> None:
    monkeypatch.setattr(channel_log, "TRIMMED_TOGETHER", 2)
    monkeypatch.setattr(ChannelLog.__init__, "__defaults__", (2,))
    place.write("sea")
    savepoint = saved(place, readers(place, "stays", "goes"), lambda: words_of(place, "goes"))
    for number in range(9):
        place.write(f"word {number}")
    handle = readers(place, "stays").start(
        savepoint=Restore(savepoint, allow_non_restored_of=("goes",)) if by_savepoint else None
    )
    try:
        wait_until(lambda: len(words_of(place, "stays")) == 10, "all rows")
        place.write("last")
        wait_until(lambda: len(words_of(place, "stays")) == 11, "one more epoch: it removes older rows")
    finally:
        handle.stop()
    assert len(epochs_of(place, "words")) < 9
    assert error_of(lambda: run(readers(place, "stays", "goes"))).catalogue_entry is comes_back


@turn(0, of=4)
def test_rows_in_flight_of_a_reader_that_goes_are_removed_and_an_added_reader_does_not_read_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = checkpoint_with_rows_in_flight(place)
    monkeypatch.setattr(channel_log, "TRIMMED_TOGETHER", 2)
    monkeypatch.setattr(ChannelLog.__init__, "__defaults__", (2,))
    back = Restore(folder_of(place, newest), rewind="once", allow_non_restored_of=("slow",))
    handle = readers(place, "stays", "added").start(savepoint=back)
    try:
        place.write("sea")  # each query has an epoch, which a checkpoint needs
        wait_until(lambda: set(words_of(place, "stays")) == set(written(place)), "all words")
        wait_until(lambda: retained_numbers(Folder.of(place.checkpoints / "job"))[-1] > newest, "a checkpoint")
        for word in ("sand", "stone", "wind"):
            place.write(word)
            wait_until(lambda word=word: word in words_of(place, "added"), "a word of the added reader")
    finally:
        handle.stop()
    generations = {record(path)["generation"] for path in epochs_of(place, "words")}
    assert generations == {2}
    assert len(words_of(place, "added")) == len(set(words_of(place, "added"))) <= len(written(place)) - 5


@turn(1, of=4)
def test_a_reader_that_resumes_under_another_name_reads_its_rows_in_flight(place: Place) -> None:
    newest = checkpoint_with_rows_in_flight(place)
    renamed = {"slow": "slower", "slow-in": "slower-in", "slow-files": "slower-files"}
    back = Restore(folder_of(place, newest), rewind="once", renamed=renamed)
    with_slow_reader(place, "slower").start(until="caught-up", savepoint=back).wait()
    assert set(words_of(place, "slow")) == set(written(place)) == set(words_of(place, "stays"))


def checkpoint_with_rows_in_flight(place: Place) -> int:
    """The number of the newest one, after the job was canceled. Words come while the job runs: those that are there at
    its start may be read in one epoch.
    """
    numbers = count()
    handle = with_slow_reader(place).start()
    try:
        with repeated(lambda: place.write(f"word {next(numbers)}"), times=300, every_seconds=0.2):
            wait_until(lambda: in_flight(place) >= 5, "a checkpoint with rows in flight")
    finally:
        handle.cancel()
    return retained_numbers(Folder.of(place.checkpoints / "job"))[-1]


def folder_of(place: Place, checkpoint: int) -> str:
    return str(place.checkpoints / "job" / "checkpoints" / str(checkpoint))


def with_slow_reader(place: Place, name: str = "slow") -> Job:
    """A quick and a slow reader of a channel. `name`: of the slow one; its files stay where they are."""

    @F.udf("string")
    def after_a_while(word: str) -> str:
        time.sleep(0.5)
        return word

    job = readers(place, "stays", checkpointing_unaligned=True)
    [words] = [sink for query in job._queries for sink in query.sinks if isinstance(sink, ChannelSink)]  # pyright: ignore[reportPrivateUsage]
    read = job.source(f"{name}-in", words).select(after_a_while("word").alias("word"))
    job.query(name, read, sinks=[FileSink(f"{name}-files", place.folder / "slow", format="json")])
    return job


def in_flight(place: Place) -> int:
    """How many rows the newest checkpoint has in flight."""
    job = Folder.of(place.checkpoints / "job")
    newest = read_retained(job, (retained_numbers(job) or [0])[-1])
    return 0 if newest is None else sum(part.rows_in_flight for part in newest.taken.values())


def written(place: Place) -> list[str]:
    return [row["word"] for path in place.input.glob("*.json") for row in map(json.loads, path.open())]


def epochs_of(place: Place, channel: str) -> Collection[Path]:
    return list((place.checkpoints / "job" / "channels" / channel / "epochs").iterdir())


def two_channels(place: Place, *channels: str) -> Job:
    """A query writes each channel, and the last one counts what is in all of them."""
    job = place.job()
    lines = place.words(job, "lines")
    made = {uid: job.channel(uid) for uid in channels}
    for uid, channel in made.items():
        job.query(f"write-{uid}", lines.where(f"length(word) {'<= 3' if uid == 'short' else '> 3'}"), sinks=[channel])
    first, *others = [job.source(f"{uid}-in", channel) for uid, channel in made.items()]
    rows = first
    for each in others:
        rows = rows.unionByName(each)
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("count", rows.groupBy("word").count(), mode="update", sinks=[table])
    return job


@turn(1, of=3)
def test_a_writer_goes_with_its_channel_and_the_next_savepoint_is_a_cut(place: Place) -> None:
    """Its writer would begin again, so it comes back under another uid alone, as with every sink."""
    place.write("sea", "stone")
    both = two_channels(place, "short", "long")
    savepoint = saved(place, both, lambda: counted(place) == {"sea": 1, "stone": 1})
    place.write("sea", "stone")
    restored(two_channels(place, "short"), savepoint, allow_non_restored_state=True)
    assert counted(place) == {"sea": 2, "stone": 1}
    place.write("sea", "stone")
    again = saved(place, two_channels(place, "short"), lambda: counted(place)["sea"] == 3)
    place.write("sea", "stone")
    assert error_of(lambda: restored(two_channels(place, "short", "long"), again)).catalogue_entry is Code.SINK_AHEAD
    restored(two_channels(place, "short", "other"), again)
    assert counted(place) == {"sea": 4, "stone": 1 + 4}


def counted(place: Place) -> dict[str, int]:
    return dict(place.table()) if (place.folder / "out.db").exists() else {}


def test_the_writer_and_the_reader_of_a_channel_resume_under_other_names(place: Place) -> None:
    place.write("sea")
    savepoint = saved(place, readers(place, "read"), lambda: words_of(place, "read"))
    place.write("sand")
    renamed = {"write": "ingest", "read": "new-read", "read-in": "read-in-again", "read-files": "new-read-files"}

    def after() -> Job:
        return readers(place, "new-read", writer="ingest", suffix="-again")

    assert error_of(lambda: restored(after(), savepoint)).catalogue_entry is Code.RESTORE_UNMATCHED
    restored(after(), savepoint, renamed=renamed)
    place.write("ice")
    run(after())
    assert words_of(place, "read") == ["ice", "sand", "sea"]


def test_a_query_that_the_program_has_no_more_needs_the_permission_to_go(place: Place) -> None:
    place.write("sea")
    savepoint = saved(place, readers(place, "stays", "goes"), lambda: words_of(place, "goes"))
    refused = error_of(lambda: restored(readers(place, "stays"), savepoint))
    assert refused.catalogue_entry is Code.RESTORE_UNMATCHED
    assert "--allow-non-restored-state-of goes" in refused.next_step or "goes" in refused.found
    place.write("sand")
    restored(readers(place, "stays"), savepoint, allow_non_restored_of=("goes",))
    assert (words_of(place, "stays"), words_of(place, "goes")) == (["sand", "sea"], ["sea"])


def test_a_channel_under_another_uid_is_refused_before_a_row_is_read(place: Place) -> None:
    place.write("sea")
    savepoint = saved(place, readers(place, "read"), lambda: words_of(place, "read"))
    place.write("sand")
    renamed = {"words": "other"}
    refused = error_of(lambda: restored(readers(place, "read", channel="other"), savepoint, renamed=renamed))
    assert refused.catalogue_entry is Code.SOURCES_CHANGED
    run(readers(place, "read"))
    assert words_of(place, "read") == ["sand", "sea"]


@turn(2, of=3)
def test_a_query_and_a_channel_are_put_between_two_others(place: Place) -> None:
    """The counts continue. The new query makes capitals of the words."""

    def counting(*, capitals: bool) -> Job:
        job = place.job()
        words = job.channel("words")
        job.query("write", place.words(job, "lines"), sinks=[words])
        read = job.source("words-in", words)
        if capitals:
            again = job.channel("again")
            job.query("capitals", read.select(F.upper("word").alias("word")), sinks=[again])
            read = job.source("again-in", again)
        table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
        job.query("count", read.groupBy("word").count(), mode="update", sinks=[table])
        return job

    place.write("SEA", "sand")
    savepoint = saved(place, counting(capitals=False), lambda: len(counted(place)) == 2)
    place.write("sea", "sand")
    restored(counting(capitals=True), savepoint, allow_non_restored_of=("count",))
    place.write("sea")
    run(counting(capitals=True))
    assert counted(place) == {"SEA": 3, "sand": 1, "SAND": 1}


@turn(2, of=4)
def test_a_fork_has_a_graph_of_its_own_and_the_first_job_runs_on(place: Place) -> None:
    """Elsewhere, under another name: without one of the readers, and with another one."""
    place.write("sea")
    savepoint = saved(place, readers(place, "old", "gone"), lambda: words_of(place, "gone"))
    place.write("sand")
    fork = place.job("fork", checkpointing_dir=str(place.folder / "elsewhere"))
    words = fork.channel("words")
    fork.query("write", place.words(fork, "lines"), sinks=[words])
    for name in ("old", "added"):
        files = FileSink(f"{name}-files", place.folder / f"fork-{name}", format="json")
        fork.query(name, fork.source(f"{name}-in", words), sinks=[files])
    restored(fork, savepoint, allow_non_restored_of=("gone",))
    assert words_of(place, "fork-old") == words_of(place, "fork-added") == ["sand"]
    run(readers(place, "old", "gone"))
    assert words_of(place, "old") == words_of(place, "gone") == ["sand", "sea"]
