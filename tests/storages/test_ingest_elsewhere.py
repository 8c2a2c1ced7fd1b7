"""Sources that give each row once, with their ingest log on HDFS or S3: drivers are killed and paused, and move."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.durable_program import SCHEMA
from tests.storages.remote_program import beside
from tests.support.driver import LOST, Driver
from tests.support.hdfs import HdfsServer
from tests.support.ingest_contract import read
from tests.support.line_server import LineServer
from tests.support.remote_files import visible
from tests.support.s3 import S3Server
from tests.support.today import sampled
from tidegate import operate
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_standing import LoggedPieces, standing_log
from tidegate.sources.logged import ArrowRows
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("ingest_program.py")
SHORT, LONG = "6s", "60s"
"""`lease.timeout` of a driver that is paused, or killed, and of its successor."""
POINTS = ("prepared.before@1", "decision.before@1", "commit.before@1")
KILLED_BEFORE = (*POINTS, "")
"""The last one: at any time, while the log grows."""
CASES = [pytest.param(each, id=each or "any time") for each in KILLED_BEFORE]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", sampled(CASES, every=4, on=0))
def test_rows_of_a_log_in_a_bucket_are_computed_once_when_their_job_moves_to_another_machine(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    moves_to_another_machine(tmp_path, str(s3.folder()), monkeypatch, point)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", sampled(CASES, every=4, on=2))
def test_rows_of_a_log_on_hdfs_are_computed_once_when_their_job_moves_to_another_machine(
    hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    moves_to_another_machine(tmp_path, f"{hdfs.uri}/{tmp_path.name}/checkpoints", monkeypatch, point)


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", [pytest.param(each, id=each) for each in POINTS])
def test_a_paused_driver_adds_nothing_to_the_log_of_its_successor_on_hdfs(
    hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    adds_nothing_when_it_wakes_up(tmp_path, f"{hdfs.uri}/{tmp_path.name}/checkpoints", monkeypatch, point)


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", [pytest.param(each, id=each) for each in POINTS])
def test_a_paused_driver_adds_nothing_to_the_log_of_its_successor_in_a_bucket(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    adds_nothing_when_it_wakes_up(tmp_path, str(s3.folder()), monkeypatch, point)


@pytest.mark.more
@pytest.mark.timeout(600)
def test_lines_of_a_socket_are_counted_once_from_their_arrival_in_the_log_on(s3: S3Server, tmp_path: Path) -> None:
    checkpoints = str(s3.folder())
    with LineServer() as server:
        for point in POINTS:
            with driver(tmp_path, checkpoints, str(server.port), SHORT, failpoints=f"{point}=crash") as killed:
                assert killed.wait() == -signal.SIGKILL, killed.tail()
    with driver(tmp_path, checkpoints, "9", SHORT, "caught-up") as last:
        assert last.wait() == 0, last.tail()
    logged = [int(line.split()[0]) for line in read(PieceLog(the_log(checkpoints)))]
    print(f"{len(server.sent)} lines sent, {len(logged)} arrived in the log")
    assert logged == sorted(set(logged)), "each once, in the order in which they were sent"
    is_exact(checkpoints, logged)


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_savepoint_holds_the_rows_behind_its_epoch_and_restores_on_hdfs_and_on_a_disk(
    hdfs: HdfsServer, tmp_path: Path
) -> None:
    holds_the_rows_behind_its_epoch(tmp_path, f"{hdfs.uri}/{tmp_path.name}")


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_savepoint_holds_the_rows_behind_its_epoch_and_restores_in_a_bucket_and_on_a_disk(
    s3: S3Server, tmp_path: Path
) -> None:
    holds_the_rows_behind_its_epoch(tmp_path, str(s3.folder()))


def holds_the_rows_behind_its_epoch(folder: Path, place: str) -> None:
    """Rows arrive all the time, so some are behind each done epoch. Other jobs restore while no feed fills their logs:
    on the storage, and on this disk. The job itself goes back in its own folder.
    """
    checkpoints = f"{place}/checkpoints"
    (folder / "born").write_text(str(time.time()))
    with driver(folder, checkpoints, "queue", SHORT) as running:
        wait_for(lambda: len(numbers(checkpoints)) > 20, running)
        answer = operate.open(checkpoints, "rows").savepoint(f"{place}/savepoints").wait().answer
        assert answer is not None
        assert answer.savepoint is not None, answer
        end = operate.open(checkpoints, "rows").stop_with_savepoint(f"{place}/savepoints").wait().answer
        assert end is not None
        assert end.savepoint is not None, end
        assert running.wait() == 0, running.tail()
    for other in (f"{place}/other", str(folder / "other")):
        with driver(folder, other, "queue", SHORT, "caught-up", savepoint=answer.savepoint) as restored:
            assert restored.wait() == 0, restored.tail()
        behind = sorted(numbers(other))
        print(f"{len(behind)} rows behind the epoch of the savepoint, restored to {other}")
        assert len(behind) >= 10
        assert behind == list(range(behind[0], behind[-1] + 1))
        assert newest_counts(other) == Counter(number % 10 for number in range(behind[-1] + 1))
    with driver(folder, checkpoints, "queue", SHORT, "caught-up", savepoint=end.savepoint) as back:
        assert back.wait() == 0, back.tail()
    is_exact(checkpoints, numbers_logged(folder, checkpoints))


def moves_to_another_machine(folder: Path, checkpoints: str, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """The first driver is killed at a step of the protocol, or at any time. No file of its machine is needed."""
    (folder / "born").write_text(str(time.time()))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "machine"))
    with driver(folder, checkpoints, "queue", SHORT, failpoints=f"{point}=crash" if point else "") as killed:
        if not point:
            wait_for(lambda: len(numbers(checkpoints)) > 20, killed)
            killed.kill()
        assert killed.wait() == -signal.SIGKILL, killed.tail()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "other-machine"))
    with driver(folder, checkpoints, "queue", SHORT, "caught-up") as last:
        assert last.wait() == 0, last.tail()
    is_exact(checkpoints, numbers_logged(folder, checkpoints))


def adds_nothing_when_it_wakes_up(folder: Path, checkpoints: str, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """The paused driver reads the same queue, which refuses rows that were reported done. When it wakes up, the place
    behind its last row is trimmed, so that it finds nothing there.
    """
    (folder / "born").write_text(str(time.time()))
    monkeypatch.setenv("TIDEGATE_CHECKPOINTING_RETAINED", "2")
    with driver(folder, checkpoints, "queue", SHORT, log="paused", failpoints=f"{point}=pause") as paused:
        paused.wait_until_stopped()
        before = standing(checkpoints).places[-1]
        with driver(folder, checkpoints, "queue", LONG) as successor:
            wait_for(lambda: standing(checkpoints).begin.offset > before.offset, successor)
            os.kill(paused.process.pid, signal.SIGCONT)
            assert paused.wait() == 1, paused.tail()
            assert any(code in paused.tail(20_000) for code in LOST)
            shown = len(numbers(checkpoints))
            wait_for(lambda: len(numbers(checkpoints)) > shown, successor)
            successor.process.terminate()
            assert successor.wait() == 0, successor.tail()
    with driver(folder, checkpoints, "queue", LONG, "caught-up") as last:
        assert last.wait() == 0, last.tail()
    is_exact(checkpoints, numbers_logged(folder, checkpoints))


def numbers_logged(folder: Path, checkpoints: str) -> list[int]:
    """All that ever arrived. The queue leaves no number out, and has forgotten only what came into the log. So the
    number of each row is that of its place in the log, of which a part may be trimmed.
    """
    log = PieceLog(the_log(checkpoints))
    rows = ArrowRows(SCHEMA, "the log")
    parts = log.parts(log.begin, log.end, "the log")
    found: list[int] = []
    for frame in (frame for part in parts for frame in part.frames()):
        for batch in rows.batches(frame):
            found += [row["n"] for row in batch.to_pylist()]
    print(f"{log.end.line} rows came into the log, {len(found)} are there")
    assert found == list(range(log.begin.line, log.end.line)), "each number once, in order"
    assert int((folder / "done").read_text()) <= log.end.line
    return list(range(log.end.line))


def is_exact(checkpoints: str, logged: list[int]) -> None:
    assert len(logged) > 20
    assert sorted(numbers(checkpoints)) == sorted(logged)
    assert newest_counts(checkpoints) == Counter(number % 10 for number in logged)


def newest_counts(checkpoints: str) -> dict[int, int]:
    counts: dict[int, int] = {}
    for row in rows(checkpoints, "counts"):
        counts[row["digit"]] = max(counts.get(row["digit"], 0), row["count"])
    return counts


def numbers(checkpoints: str) -> list[int]:
    return [row["n"] for row in rows(checkpoints, "each")]


def rows(checkpoints: str, name: str) -> list[dict[str, int]]:
    files = visible(Folder.of(beside(checkpoints, name)))
    return [json.loads(line) for data in files.values() for line in data.splitlines()]


def standing(checkpoints: str) -> LoggedPieces:
    found = standing_log(the_log(checkpoints))
    assert found is not None
    return found


def the_log(checkpoints: str) -> Folder:
    return Folder.of(checkpoints) / "rows" / "ingest" / "rows"


def driver(
    folder: Path,
    checkpoints: str,
    source: str,
    lease: str,
    until: str = "",
    *,
    savepoint: str = "",
    log: str = "log",
    failpoints: str = "",
) -> Driver:
    wishes = (until, savepoint) if savepoint else (until,) if until else ()
    return Driver(PROGRAM, str(folder), checkpoints, source, lease, *wishes, log=folder / log, failpoints=failpoints)


def wait_for(seen: Callable[[], bool], driver: Driver) -> None:
    end = time.monotonic() + 150
    while not seen():
        assert driver.process.poll() is None, driver.tail()
        assert time.monotonic() < end, driver.tail()
        time.sleep(0.2)
