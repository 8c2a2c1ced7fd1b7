"""A drain under `tidegate run`: whatever becomes of its drivers, it is started again until the job is drained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.test_due_window import PROGRAM, windows, write_events
from tests.jobs.folders import tidegate
from tests.jobs.under_run import UnderRun, wait_until
from tidegate.checkpoints.drained import is_drained
from tidegate.disk.strike_folder import StrikeFolder
from tidegate.operate.failures import read_failures
from tidegate.storages.schemes import Folder


@pytest.mark.more
def test_a_drain_whose_driver_is_killed_and_whose_next_one_fails_is_ended_by_a_third(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    strikes = StrikeFolder(tmp_path / "strikes")
    monkeypatch.setenv("TIDEGATE_TESTING", "1")
    monkeypatch.setenv("TIDEGATE_STRIKES", str(tmp_path / "strikes"))
    strikes.post("killed", "heal.entry.after=crash")
    strikes.post("failed", "done.before@1=error")
    write_events(tmp_path, 0, "00:00:01", "00:00:06")
    job, options = tmp_path / "checkpoints/windows", ["-D", "restart.exponential.initial=100ms"]
    with UnderRun(tmp_path, "false", "for-ever", program=PROGRAM, options=options) as run:
        run.new_driver()
        wait_until((job / "queries/windows/g1/ledger/done/0").exists, "the first epoch done", run)
        code, said = tidegate("stop", "windows", "--drain", "--dir", str(job.parent))
        assert (code, "nothing is lost" in said) == (1, True), said
        assert run.wait() == 0, run.tail()
    assert (windows(tmp_path), is_drained(Folder.of(job))) == ({1: [("00:00:00", 2)]}, True)
    failures = read_failures(job)
    assert [failure.code for failure in failures] == ["TG-QUERY-FAILED", "TG-DRIVER-DIED"]
    assert all(failure.restart_in_seconds is not None for failure in failures)
