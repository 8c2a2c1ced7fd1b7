"""Two drivers of one job on two machines, with the checkpoints on HDFS: one wins, and the rows are exact."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.storages.test_remote_jobs import LEASE, LONG_LEASE, PAUSED_BEFORE, PROGRAM, is_exact, write_input
from tests.support.driver import LOST, Driver
from tests.support.hdfs import HdfsServer
from tests.support.machines import Machines

pytestmark = [pytest.mark.more, pytest.mark.timeout(400)]


@pytest.fixture
def checkpoints(hdfs_for_machines: HdfsServer, tmp_path: Path) -> str:
    """The folder of a job's checkpoints, with its input beside it."""
    folder = f"{hdfs_for_machines.uri}/{tmp_path.name}/checkpoints"
    write_input(folder)
    return folder


@pytest.mark.parametrize("point", PAUSED_BEFORE)
def test_a_driver_stopped_for_longer_than_its_lease_loses_to_one_on_another_machine(
    machines: Machines, checkpoints: str, tmp_path: Path, point: str
) -> None:
    first, second = machines
    job = (PROGRAM, str(tmp_path), checkpoints)
    with Driver(*job, LEASE, log=tmp_path / "paused", failpoints=f"{point}=pause", machine=first) as paused:
        paused.wait_until_stopped()
        with Driver(*job, LONG_LEASE, log=tmp_path / "log", machine=second) as successor:
            assert successor.wait() == 0, successor.tail()
            assert f"process {paused.process.pid} on {first.name}" in successor.tail(100_000), successor.tail()
        is_exact(tmp_path, checkpoints)
        os.kill(paused.process.pid, signal.SIGCONT)
        assert paused.wait() == 1, paused.tail()
        assert any(code in paused.tail() for code in LOST), paused.tail()
    is_exact(tmp_path, checkpoints)


@pytest.mark.parametrize("point", PAUSED_BEFORE)
def test_a_driver_that_is_cut_off_from_its_storage_ends_and_another_machine_takes_over(
    machines: Machines, checkpoints: str, tmp_path: Path, point: str
) -> None:
    first, second = machines
    job = (PROGRAM, str(tmp_path), checkpoints)
    with Driver(*job, LEASE, log=tmp_path / "cut", failpoints=f"{point}=pause", machine=first) as cut:
        cut.wait_until_stopped()
        first.cut()
        try:
            os.kill(cut.process.pid, signal.SIGCONT)
            with Driver(*job, LONG_LEASE, log=tmp_path / "log", machine=second) as successor:
                assert successor.wait() == 0, successor.tail()
            is_exact(tmp_path, checkpoints)
            assert cut.wait() == 1, cut.tail()
            assert "TG-LEASE-LOST" in cut.tail(), cut.tail()
        finally:
            first.mend()
    is_exact(tmp_path, checkpoints)


def test_a_short_cut_between_driver_and_storage_is_waited_for(
    machines: Machines, checkpoints: str, tmp_path: Path
) -> None:
    first, _ = machines
    job = (PROGRAM, str(tmp_path), checkpoints, LONG_LEASE)
    with Driver(*job, log=tmp_path / "log", failpoints="decision.before@1=pause", machine=first) as driver:
        driver.wait_until_stopped()
        first.cut()
        os.kill(driver.process.pid, signal.SIGCONT)
        time.sleep(8)
        assert driver.process.poll() is None, driver.tail()
        first.mend()
        assert driver.wait() == 0, driver.tail()
    is_exact(tmp_path, checkpoints)
