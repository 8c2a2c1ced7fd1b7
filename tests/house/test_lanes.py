"""All tests run in lanes: every folder belongs to one, and their results are one result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.house.repository import ROOT
from tests.lanes import LANES, closing_line, counts_of, paths_of


def test_every_file_with_tests_belongs_to_one_lane() -> None:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    paths = [ROOT / path for lane in LANES for path in paths_of(lane)]
    assert sorted(file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])) == files


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("1876 passed, 9 skipped, 34 deselected, 231 warnings in 1424.28s (0:23:44)", {"passed": 1876, "skipped": 9}),
        ("=========== 1 failed, 2 passed, 1 error in 0.52s ===========", {"failed": 2, "passed": 2}),
        ("\x1b[31m\x1b[1m3 failed\x1b[0m, \x1b[32m5 passed\x1b[0m\x1b[31m in 2.11s\x1b[0m", {"failed": 3, "passed": 5}),
        ("no tests ran in 0.01s", {}),
        ("this test says 7 passed in 3 words", {}),
    ],
)
def test_the_counts_of_a_lane(line: str, counts: dict[str, int]) -> None:
    assert counts_of(f"....\n{line}\nsomething that an exit handler wrote\n") == counts


def test_a_lane_that_broke_off_is_a_failure() -> None:
    assert closing_line(["2 passed in 0.10s", "Killed"], [0, 137]) == "2 passed, 1 failed"
    assert closing_line(["2 passed in 0.10s", "1 failed in 0.10s"], [0, 1]) == "2 passed, 1 failed"
    assert (
        closing_line(["2 passed, 1 skipped in 0.10s", "3 passed in 0.10s"], [0, 0]) == "5 passed, 0 failed, 1 skipped"
    )


def start(folder: Path, *tests: str, longest_seconds: float = 600.0) -> subprocess.Popen[str]:
    """Lanes of one small file each."""
    for number, text in enumerate(tests):
        (folder / f"test_{number}.py").write_text(text)
    program = f"""
import sys
from pathlib import Path
from tests import lanes
lanes.LONGEST_SECONDS = {longest_seconds}
files = [[f"test_{{number}}.py"] for number in range({len(tests)})]
sys.exit(lanes.run_lanes(files, ["-q", "-p", "no:cacheprovider"], Path({str(folder)!r})))
"""
    given = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=given)


def test_two_lanes_give_one_result(tmp_path: Path) -> None:
    first = "import pytest\ndef test_good(): print('x')\ndef test_skipped(): pytest.skip('why')\n"
    lanes = start(tmp_path, first, "def test_bad(): assert 0\ndef test_good(): pass\n")
    output, _ = lanes.communicate(timeout=60)
    assert lanes.returncode == 1
    assert output.splitlines()[-1] == "2 passed, 1 failed, 1 skipped"
    assert output.index("lane 1 of 2") < output.index("1 passed, 1 skipped in") < output.index("lane 2 of 2")
    assert "FAILED test_1.py::test_bad" in output


def test_an_interrupt_ends_both_lanes_and_what_they_have_started(tmp_path: Path) -> None:
    test = """
import pathlib, subprocess, time
def test_long():
    child = subprocess.Popen(["sleep", "600"])
    pathlib.Path(f"child-{__name__}").write_text(str(child.pid))
    time.sleep(600)
"""
    lanes = start(tmp_path, test, test)
    end = time.monotonic() + 30
    while len(list(tmp_path.glob("child-*"))) < 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.1)
    lanes.send_signal(signal.SIGINT)
    output, _ = lanes.communicate(timeout=30)
    assert lanes.returncode == 2
    assert output.count("KeyboardInterrupt") >= 2
    for noted in tmp_path.glob("child-*"):
        end = time.monotonic() + 10  # SIGKILL was sent; on a busy machine the process ends a moment later
        while is_alive(int(noted.read_text())):
            assert time.monotonic() < end
            time.sleep(0.01)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_lane_that_hangs_is_killed_and_is_a_failure(tmp_path: Path) -> None:
    """Where all of Python stands still, no limit of pytest counts."""
    hangs = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ntime.sleep(600)\n"
    lanes = start(tmp_path, hangs, longest_seconds=2.0)
    output, _ = lanes.communicate(timeout=60)
    assert lanes.returncode == 137
    assert output.splitlines()[-1] == "0 passed, 1 failed"
