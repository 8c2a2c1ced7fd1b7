"""Savepoints and retained checkpoints of a job with a durable socket: every line that had arrived counts once."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, wait_until
from tests.support.line_server import LineServer
from tests.support.peer import Peer
from tests.support.today import turn
from tidegate import Job, JobHandle, Restore, SocketSource, SQLiteSink, operate
from tidegate.checkpoints.ingest_layout import segments
from tidegate.checkpoints.ingest_part import log_end
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.core.errors import Code
from tidegate.operate.app_check import CHECK_ONLY
from tidegate.savepoints.folder import open_savepoint, verify
from tidegate.savepoints.restoring import Scope

NOBODY = 9


def saved_end(place: Place, id: str) -> Path:
    """The path of a savepoint of the job, which has ended."""
    ticket = operate.open(place.checkpoints, "job").stop_with_savepoint(str(place.folder / "saved"), id=id)
    answer = ticket.wait(60).answer
    assert answer is not None
    assert answer.savepoint is not None
    return Path(answer.savepoint)


def test_a_savepoint_holds_the_lines_that_arrived_and_no_epoch_has_counted(place: Place):
    """The job ended with lines in its log that no epoch had read; its folder is lost, and it moves."""
    count_to_the_end(place, b"sea\nsand\n")
    arrive(place, b"sea", b"wind")
    path = saved_end(place, "moved")
    assert verify(open_savepoint(path)) == []
    shutil.rmtree(place.checkpoints)
    with Peer() as peer:
        handle = counting(place, peer.port).start(savepoint=Restore(str(path), claim=True))
        peer.send(b"rain\n")
        wait_until(lambda: counts(place).get("rain") == 1, "a line that came since")
        handle.stop()
    assert counts(place) == {"sea": 2, "sand": 1, "wind": 1, "rain": 1}


@turn(1, of=2)
def test_a_job_that_goes_back_counts_again_what_its_own_log_has_and_each_line_once(place: Place):
    with Peer() as peer:
        handle = counting(place, peer.port).start()
        peer.send(b"sea\n")
        wait_until(lambda: counts(place) == {"sea": 1}, "the first line")
        path = handle.savepoint(place.folder / "saved")
        peer.send(b"sea\nsand\n")
        wait_until(lambda: counts(place) == {"sea": 2, "sand": 1}, "lines behind the savepoint")
        handle.stop()
    arrive(place, b"wind")
    wish = Restore(str(path), rewind="monday")
    counting(place, NOBODY).start(until="caught-up", savepoint=wish).wait()
    assert counts(place) == {"sea": 2, "sand": 1, "wind": 1}
    counting(place, NOBODY).start(until="caught-up", savepoint=Restore(str(path), rewind="friday")).wait()
    assert counts(place) == {"sea": 2, "sand": 1, "wind": 1}


@turn(1, of=2)
def test_a_fork_begins_with_its_own_copy_of_the_part_and_the_first_job_goes_on(place: Place):
    count_to_the_end(place, b"sea\n")
    arrive(place, b"sand")
    path = saved_end(place, "fork")
    before = {file.name: (path / file.name).read_bytes() for file in open_savepoint(path).record.files}
    count_to_the_end(place, b"wind\n")
    count_to_the_end(place, b"rain\n", "copy", savepoint=str(path))
    assert counts(place) == {"sea": 1, "sand": 1, "wind": 1}
    assert counts(place, "copy") == {"sand": 1, "rain": 1}, "in targets of its own: what changed since the savepoint"
    assert before == {file.name: (path / file.name).read_bytes() for file in open_savepoint(path).record.files}


@turn(0, of=2)
def test_a_retained_checkpoint_of_a_killed_job_is_gone_back_to(place: Place):
    with Peer() as peer:
        handle = counting(place, peer.port, checkpointing_retained=10).start()
        for number in range(3):
            peer.send(b"sea\n")
            wait_until(lambda number=number: counts(place) == {"sea": number + 1}, f"line {number}")
        handle.stop()
    oldest = place.checkpoints / "job" / "checkpoints" / "1"
    arrive(place, b"sand")
    wish = Restore(str(oldest), rewind="back")
    counting(place, NOBODY).start(until="caught-up", savepoint=wish).wait()
    assert counts(place) == {"sea": 3, "sand": 1}


def test_a_job_that_ends_with_a_savepoint_takes_nothing_in_behind_it(place: Place):
    with LineServer(lines_per_second=4000) as server:
        handle = counting(place, server.port).start()
        wait_until(lambda: counts(place), "lines counted")
        path = handle.cancel_with_savepoint(place.folder / "saved")
        assert path is not None
    part = path / "ingest" / "lines"
    assert log_end(part, "saved") == log_end(the_log(place), "own")


@turn(0, of=2)
def test_a_canonical_savepoint_and_positions_alone_go_on_with_the_lines_too(place: Place):
    with Peer() as peer:
        handle = counting(place, peer.port).start()
        peer.send(b"sea\n")
        wait_until(lambda: counts(place) == {"sea": 1}, "the first line")
        canonical = handle.savepoint(place.folder / "saved", format="canonical")
        handle.stop()
    assert canonical is not None
    assert verify(open_savepoint(canonical)) == []
    count_to_the_end(place, b"sea\n", "copy", savepoint=str(canonical))
    assert counts(place, "copy") == {"sea": 2}
    arrive(place, b"sea")
    path = saved_end(place, "later")
    wish = Restore(str(path), scope=Scope.OFFSETS_ONLY)
    counting(place, NOBODY, "positions").start(until="caught-up", savepoint=wish).wait()
    assert counts(place, "positions") == {"sea": 1}


def test_a_check_says_what_stands_against_the_log_and_touches_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    count_to_the_end(place, b"sea\n")
    path = saved_end(place, "old")
    monkeypatch.setenv(CHECK_ONLY, "1")
    with pytest.raises(SystemExit):
        counting(place, NOBODY, "copy").start(savepoint=str(path))
    assert '"verdict":"ok"' in capsys.readouterr().err
    assert not (place.checkpoints / "copy").exists()
    shutil.rmtree(path / "ingest")
    error = error_of(lambda: counting(place, NOBODY, "copy").start(savepoint=str(path)))
    assert error.catalogue_entry is Code.INGEST_LOST


def test_lines_that_are_missing_between_savepoint_and_log_are_named_and_nothing_is_touched(place: Place):
    count_to_the_end(place, b"sea\n")
    path = saved_end(place, "old")
    count_to_the_end(place, b"sand\nwind\n")
    (segment,) = segments(the_log(place))
    log = SegmentLog(the_log(place), segment_bytes=1)
    log.append([b"rain"])
    log.close()
    segment.path.unlink()
    error = error_of(
        lambda: counting(place, NOBODY).start(until="caught-up", savepoint=Restore(str(path), rewind="back"))
    )
    assert error.catalogue_entry is Code.INGEST_LOST
    assert "the lines from line 1 of log" in error.expected
    assert "the oldest line that is kept: line 3 of log" in error.found
    counting(place, NOBODY).start(until="caught-up").wait()
    assert counts(place) == {"sea": 1, "sand": 1, "wind": 1, "rain": 1}


def counting(place: Place, port: int, name: str = "job", **settings: str | float) -> Job:
    job = place.job(name, **settings)
    lines = job.source("lines", SocketSource("127.0.0.1", port, durable=True))
    table = SQLiteSink("table", place.folder / f"{name}.db", table="words", key="value")
    job.query("counts", lines.groupBy("value").agg(F.count("*").alias("n")), mode="update", sinks=[table])
    return job


def count_to_the_end(place: Place, lines: bytes, name: str = "job", savepoint: str | None = None) -> None:
    """Start the job, send lines, stop it when they are counted."""
    before = counts(place, name)
    with Peer() as peer:
        handle: JobHandle = counting(place, peer.port, name).start(savepoint=savepoint)
        peer.send(lines)
        last = lines.split()[-1].decode()
        wait_until(lambda: counts(place, name).get(last, 0) > before.get(last, 0), f"{lines} counted")
        handle.stop()


def arrive(place: Place, *lines: bytes) -> None:
    """As if they had come just before a kill."""
    log = SegmentLog(the_log(place))
    log.append(lines)
    log.close()


def the_log(place: Place, name: str = "job") -> Path:
    return place.checkpoints / name / "ingest" / "lines"


def counts(place: Place, name: str = "job") -> dict[str, int]:
    path = place.folder / f"{name}.db"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as database:
        known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchone()
        return dict(database.execute("SELECT value, n FROM words")) if known else {}
