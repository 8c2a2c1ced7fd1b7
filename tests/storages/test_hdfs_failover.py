"""The active NameNode of a name service changes: calls of the storage, jobs, and commands."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.jobs.under_run import UnderRun, wait_until
from tests.storages.test_bad_days import QUICKLY, shown, told
from tests.storages.test_remote_jobs import PROGRAM, is_exact, lines, write_input
from tests.support.command import tidegate
from tests.support.hdfs_pair import HdfsPair
from tidegate.storages.hdfs.client import Waits
from tidegate.storages.hdfs.publish import TEMPORARY_SUFFIX
from tidegate.storages.hdfs.storage import HdfsStorage
from tidegate.storages.schemes import Folder

BRIEF = Waits(call_seconds=3.0, transfer_seconds=60.0)
"""Each call has its deadline, and an operation has a minute, as in a job."""
FILES = 24


def place() -> Folder:
    """A folder of a test's own, without the name of the service."""
    return Folder.of(f"hdfs:///failover/{secrets.token_hex(4)}")


# --- the storage ---------------------------------------------------------------------------------------------


def hand_over(pair: HdfsPair) -> None:
    pair.demote("a")
    pair.promote("b")


def kill(pair: HdfsPair) -> None:
    pair.kill("a")
    pair.promote("b")


def fall_silent(pair: HdfsPair) -> None:
    pair.silence("a")
    pair.promote("b")


WAYS = (hand_over, kill, fall_silent)


@pytest.mark.more
@pytest.mark.timeout(400)
@pytest.mark.parametrize("change", WAYS)
def test_records_are_written_and_read_through_the_next_name_node(
    hdfs_pair: HdfsPair, change: Callable[[HdfsPair], None]
) -> None:
    """By many threads, whose connections have all known the first one."""
    storage = HdfsStorage(place(), BRIEF)
    assert storage.where().startswith("hdfs://tides/failover/")
    with ThreadPoolExecutor(8) as threads:
        met = threading.Barrier(8)

        def put(number: int) -> bool:
            met.wait()
            return storage.put_if_absent(f"before/{number}", b"first")

        assert all(threads.map(put, range(8)))
        change(hdfs_pair)
        begun = time.monotonic()
        assert all(threads.map(lambda number: storage.put_if_absent(f"after/{number}", b"second"), range(8)))
        assert storage.read("before/0") == b"first"
        assert not any(threads.map(lambda number: storage.put_if_absent(f"before/{number}", b"other"), range(8)))
        assert time.monotonic() - begun < 60
    assert storage.list("after") == [str(number) for number in range(8)]


# --- jobs ----------------------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.timeout(900)
@pytest.mark.parametrize("change", WAYS)
def test_a_job_runs_on_through_a_failover_and_keeps_its_lease(
    hdfs_pair: HdfsPair, change: Callable[[HdfsPair], None], tmp_path: Path
) -> None:
    """Its input, its output and its checkpoints are there, by a URI that names no service."""
    checkpoints = f"hdfs:///{tmp_path.name}/checkpoints"
    write_input(checkpoints, range(FILES))
    with UnderRun(tmp_path, checkpoints, "30s", program=PROGRAM, options=QUICKLY) as run:
        wait_until(lambda: shown(tmp_path, run), "the first rows", run, 300)
        first = run.driver()
        change(hdfs_pair)
        done = len(lines(tmp_path))
        assert done < 3 * FILES, "the job has ended before the failover"
        assert run.wait(400) == 0, run.tail()
    assert not told(run, "restart of the driver"), run.tail()
    assert run.sessions == {first}
    is_exact(tmp_path, checkpoints, FILES)
    leaves_nothing(hdfs_pair, tmp_path)


@pytest.mark.more
@pytest.mark.timeout(900)
def test_a_job_that_no_name_node_serves_is_started_again_until_one_is_promoted(
    hdfs_pair: HdfsPair, tmp_path: Path
) -> None:
    checkpoints = f"hdfs:///{tmp_path.name}/checkpoints"
    write_input(checkpoints, range(FILES))
    with UnderRun(tmp_path, checkpoints, "6s", program=PROGRAM, options=QUICKLY) as run:
        wait_until(lambda: shown(tmp_path, run), "the first rows", run, 300)
        hdfs_pair.kill("a")
        wait_until(lambda: told(run, "restart of the driver"), "the end of the driver", run, 240)
        wait_until(lambda: told(run, "StandbyException"), "a driver that finds only a standby", run, 240)
        assert told(run, "hdfs haadmin"), run.tail()
        hdfs_pair.promote("b")
        assert run.wait(400) == 0, run.tail()
    is_exact(tmp_path, checkpoints, FILES)
    leaves_nothing(hdfs_pair, tmp_path)


def leaves_nothing(pair: HdfsPair, folder: Path) -> None:
    """No hidden and no staged file. What Spark leaves when its thread is stopped in a write stays, as on any day."""
    pair.kill("a")  # a plain client waits for a silent one without an end
    names = [each.path for each in pair.client().list_status(f"/{folder.name}", recursive=True)]
    assert any("/offsets/" in name for name in names)
    assert [name for name in names if name.endswith((TEMPORARY_SUFFIX, ".staged"))] == []


# --- commands ------------------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.timeout(900)
def test_commands_work_while_one_name_node_is_dead(hdfs_pair: HdfsPair, tmp_path: Path) -> None:
    checkpoints, savepoints = f"hdfs:///{tmp_path.name}/checkpoints", f"hdfs:///{tmp_path.name}/savepoints"
    service = f"hdfs://tides/{tmp_path.name}/checkpoints"
    write_input(checkpoints, range(FILES))
    with UnderRun(tmp_path, checkpoints, "30s", program=PROGRAM, options=QUICKLY) as run:
        wait_until(lambda: shown(tmp_path, run), "the first rows", run, 300)
        kill(hdfs_pair)
        (job,) = json.loads(printed("list", "--dir", service, "--json"))["jobs"]
        assert (job["job"], job["state"]) == ("words", "RUNNING")
        assert len(json.loads(printed("info", "words", "--dir", service, "--json"))["queries"]) == 2
        assert "FAILED" not in printed("check", "--dir", service)
        stopped = printed("stop", "words", "-p", savepoints, "--dir", service)
        assert f"hdfs://tides/{tmp_path.name}/savepoints/savepoint-" in stopped
        assert run.wait(300) == 0, run.tail()
    assert len(lines(tmp_path)) < 3 * FILES, "the job has ended before it was stopped"
    with UnderRun(tmp_path, checkpoints, "30s", program=PROGRAM, options=QUICKLY) as run:
        assert run.wait(400) == 0, run.tail()
    is_exact(tmp_path, checkpoints, FILES)
    leaves_nothing(hdfs_pair, tmp_path)


def printed(*arguments: str) -> str:
    """What a command prints, which must succeed."""
    said = tidegate(*arguments)
    assert said.code == 0, f"{arguments}: {said}"
    return said.stdout
