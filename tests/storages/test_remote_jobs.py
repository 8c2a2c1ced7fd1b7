"""Jobs whose checkpoints are not on a disk: killed at the steps that matter, they stay exact."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.storages.remote_program import beside
from tests.support.driver import LOST, Driver
from tests.support.hdfs import HdfsServer
from tests.support.remote_files import staged, visible
from tests.support.s3 import S3Server
from tests.support.today import sampled, turn
from tidegate import operate
from tidegate.core.ledger import DECIDED, entry
from tidegate.core.records import Sealed, decode
from tidegate.operate import State
from tidegate.savepoints.scratch import left_by_drivers
from tidegate.savepoints.take import HELD
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("remote_program.py")
FILES = 4
AWAY_SECONDS = 8.0
LEASE, LONG_LEASE = "6s", "60s"
"""Of a driver that is paused, and of one that a busy machine must not take it from."""
PAUSED_BEFORE = ("prepared.before@1", "decision.before@1", "commit.before@1")
CASES = [pytest.param(each, id=each) for each in PAUSED_BEFORE]


@turn(0, of=4)
@pytest.mark.timeout(400)
def test_a_job_with_its_checkpoints_on_hdfs_stays_exact_when_its_driver_is_killed(
    hdfs: HdfsServer, tmp_path: Path
) -> None:
    stays_exact(tmp_path, f"{hdfs.uri}/{tmp_path.name}/checkpoints")


@turn(2, of=4)
@pytest.mark.timeout(400)
def test_a_job_with_its_checkpoints_on_s3_stays_exact_when_its_driver_is_killed(s3: S3Server, tmp_path: Path) -> None:
    stays_exact(tmp_path, str(s3.folder()))


@turn(5, of=8)
@pytest.mark.timeout(400)
def test_a_job_on_s3_goes_back_to_its_retained_checkpoint(s3: S3Server, tmp_path: Path) -> None:
    """By the name that Flink would give it."""
    checkpoints = str(s3.folder())
    write_input(checkpoints, range(2))
    with Driver(PROGRAM, str(tmp_path), checkpoints, LONG_LEASE, log=tmp_path / "log") as first:
        assert first.wait() == 0, first.tail()
    info = operate.open(checkpoints, "words").info()
    write_input(checkpoints, range(2, FILES))
    back = f"savepoint={checkpoints}/{info.job.job_id}/chk-{max(info.retained)}"
    with Driver(PROGRAM, str(tmp_path), checkpoints, LONG_LEASE, back, log=tmp_path / "log") as second:
        assert second.wait() == 0, second.tail()
    is_exact(tmp_path, checkpoints)
    assert {query.generation for query in operate.open(checkpoints, "words").info().queries} == {2}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", sampled(CASES, every=4, on=1))
def test_a_driver_that_is_paused_for_longer_than_its_lease_changes_nothing_when_it_wakes_up(
    hdfs: HdfsServer, tmp_path: Path, point: str
) -> None:
    changes_nothing_when_it_wakes_up(tmp_path, f"{hdfs.uri}/{tmp_path.name}/checkpoints", point)


@pytest.mark.more
@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", PAUSED_BEFORE)
def test_a_driver_that_is_paused_beside_its_successor_on_s3_changes_nothing_when_it_wakes_up(
    s3: S3Server, tmp_path: Path, point: str
) -> None:
    changes_nothing_when_it_wakes_up(tmp_path, str(s3.folder()), point)


@pytest.mark.more
@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", PAUSED_BEFORE)
def test_a_driver_that_was_paused_while_a_fresh_generation_was_opened_changes_nothing_when_it_wakes_up(
    hdfs: HdfsServer, tmp_path: Path, point: str
) -> None:
    checkpoints = f"{hdfs.uri}/{tmp_path.name}/checkpoints"
    write_input(checkpoints)
    with Driver(
        PROGRAM, str(tmp_path), checkpoints, LEASE, log=tmp_path / "paused", failpoints=f"{point}=pause"
    ) as paused:
        paused.wait_until_stopped()
        again = (PROGRAM, str(tmp_path), checkpoints, LONG_LEASE, "fresh=again")
        with Driver(*again, log=tmp_path / "killed", failpoints="restore.opened=crash") as killed:
            assert killed.wait() == -signal.SIGKILL, killed.tail()
        with Driver(*again, log=tmp_path / "log") as successor:
            assert successor.wait() == 0, successor.tail()
        shown = rows_by_word(checkpoints)
        os.kill(paused.process.pid, signal.SIGCONT)
        assert paused.wait() == 1, paused.tail()
    assert rows_by_word(checkpoints) == shown
    older, newer = list(range(1, 1 + epochs_below_the_seal(checkpoints, "counts", 1))), list(range(1, FILES + 1))
    assert shown == {"bay": sorted(older + newer), "sea": sorted(2 * count for count in older + newer)}
    assert {query.generation for query in operate.open(checkpoints, "words").info().queries} == {2}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", sampled(CASES, every=4, on=3))
def test_a_driver_that_was_paused_while_its_job_was_restored_changes_nothing_when_it_wakes_up(
    hdfs: HdfsServer, tmp_path: Path, point: str
) -> None:
    checkpoints, savepoints = f"{hdfs.uri}/{tmp_path.name}/checkpoints", f"{hdfs.uri}/{tmp_path.name}/savepoints"
    write_input(checkpoints, range(2))
    with Driver(PROGRAM, str(tmp_path), checkpoints, LONG_LEASE, log=tmp_path / "log") as first:
        assert first.wait() == 0, first.tail()
    answer = operate.open(checkpoints, "words").stop_with_savepoint(savepoints).wait().answer
    assert answer is not None
    assert answer.savepoint is not None
    assert [each.path for each in operate.list_savepoints(savepoints).savepoints] == [answer.savepoint]
    write_input(checkpoints, range(2, FILES))
    later = point.replace("@1", "@3")
    with Driver(
        PROGRAM, str(tmp_path), checkpoints, LEASE, log=tmp_path / "paused", failpoints=f"{later}=pause"
    ) as paused:
        paused.wait_until_stopped()
        back = (PROGRAM, str(tmp_path), checkpoints, LONG_LEASE, f"rewind={answer.savepoint}")
        with Driver(*back, log=tmp_path / "log") as successor:
            assert successor.wait() == 0, successor.tail()
        shown = rows_by_word(checkpoints)
        os.kill(paused.process.pid, signal.SIGCONT)
        assert paused.wait() == 1, paused.tail()
    assert rows_by_word(checkpoints) == shown
    older = list(range(1, 1 + epochs_below_the_seal(checkpoints, "counts", 1)))
    newer = list(range(3, FILES + 1))
    assert shown == {"bay": sorted(older + newer), "sea": sorted(2 * count for count in older + newer)}


@turn(2, of=4)
@pytest.mark.timeout(400)
def test_a_plain_start_continues_a_sealed_generation_and_the_paused_opener_loses(s3: S3Server, tmp_path: Path) -> None:
    checkpoints = str(s3.folder())
    write_input(checkpoints, range(2))
    with Driver(PROGRAM, str(tmp_path), checkpoints, LONG_LEASE, log=tmp_path / "log") as first:
        assert first.wait() == 0, first.tail()
    write_input(checkpoints, range(2, FILES))
    opener = (PROGRAM, str(tmp_path), checkpoints, LEASE, "fresh=again")
    with Driver(*opener, log=tmp_path / "paused", failpoints="restore.recorded=pause") as paused:
        paused.wait_until_stopped()
        assert epochs_below_the_seal(checkpoints, "counts", 1) == 2
        with Driver(PROGRAM, str(tmp_path), checkpoints, LONG_LEASE, log=tmp_path / "log") as successor:
            assert successor.wait() == 0, successor.tail()
        is_exact(tmp_path, checkpoints)
        os.kill(paused.process.pid, signal.SIGCONT)
        assert paused.wait() == 1, paused.tail()
        assert any(code in paused.tail() for code in ("TG-LEASE-LOST", "TG-GENERATION-SEALED")), paused.tail()
    is_exact(tmp_path, checkpoints)
    assert {query.generation for query in operate.open(checkpoints, "words").info().queries} == {3}


@pytest.mark.more
@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", PAUSED_BEFORE)
def test_a_job_goes_on_when_its_hdfs_was_away_for_a_shorter_time_than_its_lease(
    hdfs: HdfsServer, tmp_path: Path, point: str
) -> None:
    checkpoints = f"{hdfs.uri}/{tmp_path.name}/checkpoints"
    write_input(checkpoints)
    with Driver(
        PROGRAM, str(tmp_path), checkpoints, "60s", log=tmp_path / "log", failpoints=f"{point}=pause"
    ) as driver:
        driver.wait_until_stopped()
        hdfs.kill_name_node()
        try:
            os.kill(driver.process.pid, signal.SIGCONT)
            time.sleep(AWAY_SECONDS)
            assert driver.process.poll() is None, driver.tail()
        finally:
            hdfs.start_name_node()
        assert driver.wait() == 0, driver.tail()
    is_exact(tmp_path, checkpoints)


def stays_exact(folder: Path, checkpoints: str) -> None:
    write_input(checkpoints)
    for failpoint in ("prepared.before@0", "decision.before@1", "commit.after@2"):
        die(folder, checkpoints, failpoint)
    job = Folder.of(checkpoints) / "words"
    open_storage(job / HELD / "of-a-dead-driver").replace("state/0/0/1.delta", b"rows")
    with Driver(PROGRAM, str(folder), checkpoints, log=folder / "log") as driver:
        assert driver.wait() == 0, driver.tail()
    is_exact(folder, checkpoints)
    assert (staged(Folder.of(beside(checkpoints, "out"))), left_by_drivers(job)) == ([], [])
    (seen,) = operate.jobs(checkpoints)
    assert (seen.name, seen.state) == ("words", State.FINISHED)
    info = operate.open(checkpoints, "words").info()
    assert {query.uid: query.finished for query in info.queries} == {"counts": FILES - 1, "drawn": FILES - 1}
    assert info.retained, "there is a retained checkpoint"


def changes_nothing_when_it_wakes_up(folder: Path, checkpoints: str, point: str) -> None:
    write_input(checkpoints)
    with Driver(PROGRAM, str(folder), checkpoints, log=folder / "paused", failpoints=f"{point}=pause") as paused:
        paused.wait_until_stopped()
        with Driver(PROGRAM, str(folder), checkpoints, log=folder / "log") as successor:
            assert successor.wait() == 0, successor.tail()
        is_exact(folder, checkpoints)
        os.kill(paused.process.pid, signal.SIGCONT)
        assert paused.wait() == 1, paused.tail()
        assert any(code in paused.tail() for code in LOST)
    is_exact(folder, checkpoints)


def is_exact(folder: Path, checkpoints: str, files: int = FILES) -> None:
    """The counts are on the storage of the checkpoints, the lines on this machine."""
    assert counts(checkpoints) == [{"sea": 2 * (number + 1), "bay": number + 1} for number in range(files)]
    assert lines(folder) == sorted(["sea", "sea", "bay"] * files)


def write_input(checkpoints: str, numbers: range = range(FILES)) -> None:
    """Files with the same lines, so that their order does not matter."""
    for number in numbers:
        open_storage(beside(checkpoints, "in")).replace(f"{number}.txt", b"sea\nbay\nsea\n")


def die(folder: Path, checkpoints: str, failpoint: str) -> None:
    with Driver(PROGRAM, str(folder), checkpoints, log=folder / "log", failpoints=f"{failpoint}=crash") as driver:
        assert driver.wait() == -signal.SIGKILL, driver.tail()


def counts(checkpoints: str) -> list[dict[str, int]]:
    """The counts of each epoch, which are all different, by their size."""
    by_word = rows_by_word(checkpoints)
    return [{"sea": sea, "bay": bay} for sea, bay in zip(by_word["sea"], by_word["bay"], strict=True)]


def epochs_below_the_seal(checkpoints: str, query: str, generation: int) -> int:
    ledger = open_storage(Folder.of(checkpoints) / f"words/queries/{query}/g{generation}")
    newest = max(map(int, ledger.list(DECIDED)))
    data = ledger.read(entry(DECIDED, newest))
    assert data is not None
    return decode(Sealed, data, query).epoch


def rows_by_word(checkpoints: str) -> dict[str, list[int]]:
    files = visible(Folder.of(beside(checkpoints, "out")))
    rows = [json.loads(line) for data in files.values() for line in data.splitlines()]
    return {word: sorted(row["count"] for row in rows if row["value"] == word) for word in ("sea", "bay")}


def lines(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        return sorted(value for (value,) in database.execute("SELECT value FROM t"))
