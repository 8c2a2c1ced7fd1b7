"""Lines from a socket: with `durable=True` exactly once from their arrival in the log on; without, at most once."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from tests.integration.place import Place, error_of, wait_until
from tests.support.driver import Driver
from tests.support.fs_recorder import FsRecorder
from tests.support.line_server import LineServer
from tests.support.peer import Peer
from tests.support.today import turn
from tidegate import Job, JobHandle, SocketSource, SQLiteSink
from tidegate.checkpoints.ingest_layout import IngestPosition, segments, synced_end
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.core.errors import Code
from tidegate.operate.beat import read_beat
from tidegate.spark.sources import ingest
from tidegate.spark.sources.ingest import KeptInput
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).parent / "socket_program.py"


@turn(1, of=2)
@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.more)])
@pytest.mark.timeout(900)
def test_a_durable_word_count_is_killed_and_every_line_that_arrived_counts_once(tmp_path: Path, kills: int):
    with LineServer() as server:
        for _ in range(kills):
            let_it_work_then_kill_it(tmp_path, server, "exactly-once", "durable")
    with Driver(PROGRAM, str(tmp_path), "9", "exactly-once", "durable", "caught-up", log=tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail()

    arrived = lines_in_the_log(tmp_path / "checkpoints" / "lines" / "ingest" / "socket")
    print(f"{kills} kills: {len(server.sent)} lines sent, {len(arrived)} arrived in the log")
    assert in_order_within(arrived, server.sent)
    assert sorted(rows(tmp_path, "each", "lines")) == sorted((line,) for line in arrived)
    assert dict(rows(tmp_path, "counts", "counts")) == Counter(line.split()[1] for line in arrived)
    state = tmp_path / "checkpoints" / "lines" / "queries" / "counts" / "g1" / "spark" / "state" / "0"
    partitions = [path.name for path in state.iterdir() if path.name.isdigit()]
    assert 0 < len(partitions) <= (os.cpu_count() or 1), "as many as this machine has cores, not Spark's two hundred"


@pytest.mark.more
@pytest.mark.parametrize("kind", ["plain", "durable"])
@pytest.mark.timeout(900)
def test_a_socket_at_most_once_is_killed_five_times_and_repeats_nothing(tmp_path: Path, kind: str):
    with LineServer() as server:
        for _ in range(6):
            let_it_work_then_kill_it(tmp_path, server, "at-most-once", kind)
    shown = rows(tmp_path, "each", "lines")
    print(f"{kind}, 5 kills and one more: {len(server.sent)} lines sent, {len(shown)} shown")
    assert len(shown) == len(set(shown)), "repeated"
    assert {line for (line,) in shown} <= set(server.sent)


def test_lines_are_kept_as_they_came_and_shown_as_text(place: Place):
    with Peer() as peer:
        handle = started(place, peer)
        peer.send(b"sea\r\n\nsand\nl\xe4rm\n  two words \n")
        wait_until(lambda: len(shown(place)) == 5, "five lines")
        handle.stop()
    assert sorted(shown(place)) == sorted(["sea", "", "sand", "l\ufffdrm", "  two words "])
    assert b"l\xe4rm\n" in b"".join(path.read_bytes() for path in the_log(place).glob("*.lines"))


def test_what_arrived_before_a_stop_comes_at_the_next_start_once(place: Place):
    """The sink holds the epoch of the first lines up; what comes then is in the log, and in no epoch, at the stop."""
    with Peer() as peer:
        handle = started(place, peer)
        peer.send(b"1\n")
        wait_until(lambda: shown(place) == ["1"], "the first line")
        with closing(sqlite3.connect(place.folder / "out.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            peer.send(b"2\n")
            wait_until(lambda: 1 in place.log("ledger/decided"), "the epoch of the second line decided")
            peer.send(b"3\n4\n")
            wait_until(lambda: end_of_the_log(place) == 4, "four lines in the log")
            wait_until(lambda: lag(place) == "3 rows", "a beat that says how many are not done")
            other.execute("ROLLBACK")
        handle.stop()
    job = declared(place, 9)
    job.start(until="caught-up").wait()
    assert sorted(shown(place)) == ["1", "2", "3", "4"]


def test_a_job_that_ends_when_it_has_caught_up_works_off_the_log_and_connects_to_nobody(place: Place):
    with Peer() as peer:
        declared(place, peer.port).start(until="caught-up").wait()
        assert not peer.was_asked()
    assert shown(place) == []


def test_a_plain_socket_is_refused_and_told_how_it_can_be_exact(place: Place):
    error = error_of(lambda: place.job().source("lines", SocketSource("127.0.0.1", 9)))
    assert error.catalogue_entry is Code.SOURCE_NOT_REPLAYABLE
    assert "durable=True" in error.next_step


def test_a_cluster_cannot_read_the_log_on_this_disk(place: Place):
    cluster = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(master="spark://somewhere:7077")))
    source = SocketSource("127.0.0.1", 9, durable=True).behind_a_log
    error = error_of(lambda: source.require_reach(cluster, Folder.of(place.checkpoints), "source lines"))
    assert (error.catalogue_entry, "spark://somewhere:7077" in error.found) == (Code.SOURCE_LOCAL_ONLY, True)
    assert "checkpointing.dir to a folder on HDFS or S3" in error.next_step
    source.require_reach(cluster, Folder.of("s3://bucket/checkpoints"), "source lines")


@pytest.mark.parametrize(
    "source",
    [
        lambda: SocketSource("", 9, durable=True),
        lambda: SocketSource("localhost", 65536, durable=True),
        lambda: SocketSource("localhost", 9, durable=True, max_line_bytes=0),
    ],
)
def test_an_option_that_cannot_be_is_refused(place: Place, source: Callable[[], SocketSource]):
    error = error_of(lambda: place.job().source("lines", source()))
    assert error.catalogue_entry is Code.SOURCE_OPTION


def test_a_line_that_is_too_long_ends_the_job_and_every_line_before_it_counts(place: Place):
    with Peer() as peer:
        handle = started(place, peer)
        peer.send(b"sea\nsand\n" + b"x" * 2_000_000)
        assert error_of(lambda: handle.wait(60)).catalogue_entry is Code.SOURCE_LINE
        again = started(place, peer)
        peer.send(b"wind\n")
        wait_until(lambda: len(shown(place)) == 3, "three lines")
        again.stop()
    assert sorted(shown(place)) == ["sand", "sea", "wind"]


def test_a_full_disk_holds_the_peer_up_and_every_line_counts_once_when_there_is_space(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    with Peer() as peer:
        handle = started(place, peer)
        peer.send(b"sea\n")
        wait_until(lambda: shown(place) == ["sea"], "the first line")
        with monkeypatch.context() as patch:
            disk = FsRecorder(patch, below=the_log(place))
            refused: list[str] = []
            disk.fail("write", errno.ENOSPC)
            fail = disk.before_each
            disk.before_each = lambda event: (refused.append(event.what), fail(event))[1]
            peer.send(b"sand\n")
            wait_until(lambda: refused, "a write that found no space")
            assert (end_of_the_log(place), handle.status().running) == (1, True)
        peer.send(b"wind\n")
        wait_until(lambda: len(shown(place)) == 3, "three lines")
        handle.stop()
    assert sorted(shown(place)) == ["sand", "sea", "wind"]


@pytest.mark.parametrize(
    "level",
    [
        "exactly-once",
        pytest.param("at-least-once", marks=pytest.mark.more),
        pytest.param("at-most-once", marks=pytest.mark.more),
    ],
)
def test_the_log_is_trimmed_behind_the_epochs_that_are_retained(
    place: Place, monkeypatch: pytest.MonkeyPatch, level: str
):
    monkeypatch.setattr(ingest, "open_ingest_log", lambda folder: SegmentLog(folder.local(), segment_bytes=1))
    with Peer() as peer:
        handle = started(place, peer, checkpointing_retained=4, checkpointing_mode=level)
        for number in range(12):
            peer.send(b"%d\n" % number)
            wait_until(lambda number=number: len(shown(place)) == number + 1, f"line {number}")
        wait_until(lambda: segments(the_log(place))[0].begin.line > 0, "something trimmed")
        handle.stop()
    # Going back to the oldest of four retained epochs means to read what came after it again.
    assert 0 < segments(the_log(place))[0].begin.line <= 8
    assert len(shown(place)) == 12


def test_a_log_is_not_trimmed_behind_a_query_that_is_slower(place: Place):
    kept = KeptInput(frozenset({"fast", "slow"}), epochs=2)
    at = [IngestPosition("log", number * 10, number) for number in range(10)]
    assert [kept.done("fast", at[number]) for number in range(5)] == [None] * 5
    assert kept.done("slow", at[1]) is None
    assert kept.done("slow", at[2]) == at[1]
    assert kept.done("fast", at[9]) == at[1]


def test_a_log_that_was_removed_is_missed_at_once_and_not_begun_anew(place: Place):
    with Peer() as peer:
        handle = started(place, peer)
        peer.send(b"sea\nsand\n")
        wait_until(lambda: len(shown(place)) == 2, "two lines")
        handle.stop()
    shutil.rmtree(the_log(place))
    error = error_of(lambda: declared(place, 9).start(until="caught-up").wait())
    assert error.catalogue_entry is Code.INGEST_LOST
    assert "removed or exchanged" in error.found


def test_an_older_copy_of_the_log_is_refused_before_a_line_can_take_the_place_of_one_that_counted(place: Place):
    with Peer() as peer:
        handle = started(place, peer)
        peer.send(b"1\n")
        wait_until(lambda: shown(place) == ["1"], "the first line")
        copy = shutil.copytree(the_log(place), place.folder / "copy")
        peer.send(b"2\n3\n")
        wait_until(lambda: len(shown(place)) == 3, "three lines")
        handle.stop()
    shutil.rmtree(the_log(place))
    copy.rename(the_log(place))
    before = [each.path.read_bytes() for each in segments(the_log(place))]
    with Peer() as peer:
        error = error_of(lambda: started(place, peer))
        assert not peer.was_asked()
    assert error.catalogue_entry is Code.INGEST_LOST
    assert "line 3 of log" in error.expected
    assert "its end at line 1 of log" in error.found
    assert [each.path.read_bytes() for each in segments(the_log(place))] == before


def test_an_at_most_once_job_begins_at_what_arrives_and_leaves_the_rest_of_the_log(place: Place):
    with Peer() as peer:
        handle = started(place, peer, checkpointing_mode="at-most-once")
        peer.send(b"1\n")
        wait_until(lambda: shown(place) == ["1"], "the first line")
        handle.stop()
    log = SegmentLog(the_log(place))
    log.append([b"2"])  # as if it had come just before a kill
    log.close()
    with Peer() as peer:
        handle = started(place, peer, checkpointing_mode="at-most-once")
        peer.send(b"3\n")
        wait_until(lambda: len(shown(place)) > 1, "one more line")
        handle.stop()
    assert sorted(shown(place)) == ["1", "3"]


def declared(place: Place, port: int, **settings: str | float) -> Job:
    job = place.job("job", **settings)
    lines = job.source("lines", SocketSource("127.0.0.1", port, durable=True))
    job.query("query", lines, sinks=[SQLiteSink("table", str(place.folder / "out.db"), table="lines")])
    return job


def started(place: Place, peer: Peer, **settings: str | float) -> JobHandle:
    return declared(place, peer.port, **settings).start()


def shown(place: Place) -> list[str]:
    return [line for (line,) in rows(place.folder, "out", "lines")]


def the_log(place: Place) -> Path:
    return place.checkpoints / "job" / "ingest" / "lines"


def end_of_the_log(place: Place) -> int:
    return synced_end(the_log(place), "source lines").line


def lag(place: Place) -> str | None:
    """As `tidegate info` and the live view show it."""
    beat = read_beat(place.checkpoints / "job")
    return None if beat is None else beat.queries[0].lag


def let_it_work_then_kill_it(folder: Path, server: LineServer, mode: str, kind: str) -> None:
    """SIGKILL to the driver's Python some epochs after it has shown its first new rows."""
    before = len(rows(folder, "each", "lines"))
    with Driver(PROGRAM, str(folder), str(server.port), mode, kind, log=folder / "log") as driver:
        wait_for(lambda: len(rows(folder, "each", "lines")) > before + 200, driver)
        driver.kill()


def wait_for(seen: Callable[[], bool], driver: Driver) -> None:
    end = time.monotonic() + 120
    while not seen():
        assert driver.process.poll() is None, driver.tail()
        assert time.monotonic() < end, driver.tail()
        time.sleep(0.02)


def rows(folder: Path, name: str, table: str) -> list[tuple[Any, ...]]:
    """What a reader sees; nothing while there is no table yet."""
    path = folder / f"{name}.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=30)) as database:
        known = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        return database.execute(f"SELECT * FROM {table}").fetchall() if known else []


def lines_in_the_log(log: Path) -> list[str]:
    """Everything that ever arrived, by a reader of the files of its own."""
    found: list[str] = []
    segments = sorted(log.glob("*.lines"))
    assert segments[0].name.startswith("0" * 20), "nothing was trimmed"
    for segment in segments:
        data = segment.read_bytes()
        while data:
            magic, _, _, _, _, count, length = struct.unpack(">4sI8sQQII", data[:40])
            lines = data[40 : 40 + length].decode().splitlines()
            assert (magic, len(lines)) == (b"TGL1", count)
            found += lines
            data = data[40 + length :]
    return found


def in_order_within(some: list[str], whole: list[str]) -> bool:
    """Whether `some` is `whole` with lines left out."""
    rest: Iterator[str] = iter(whole)
    return all(line in rest for line in some)
