"""State in the hashmap backend, whose files have no names of their own: nothing that a killed run left counts."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.test_python_state import PROGRAM, compare
from tests.support.driver import Driver, numbers
from tests.support.today import turn

LINES = ["sea sand", "sea foam", "sea", "foam sea"]
SNAPSHOTS_AT_ONCE = (
    "--conf spark.sql.streaming.stateStore.maintenanceInterval=100ms "
    "--conf spark.sql.streaming.stateStore.minDeltasForSnapshot=0 pyspark-shell"
)


@turn(0, of=4)
@pytest.mark.timeout(300)
def test_a_killed_job_with_hashmap_state_goes_on_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in an epoch that is prepared, its state written as a delta and as a snapshot, and not committed.

    The next run draws another number for the word that came with that epoch; the run after it reads the state anew.
    """
    monkeypatch.setenv("TIDEGATE_STATE_BACKEND", "hashmap")
    query, hold = tmp_path / "checkpoints/draws/queries/draws/g1", tmp_path / "hold"
    state = query / "spark/state/0"
    write(tmp_path, *LINES[:3])
    with monkeypatch.context() as quick:
        quick.setenv("PYSPARK_SUBMIT_ARGS", SNAPSHOTS_AT_ONCE)
        held = f"prepared.after@1=hold:{hold}"
        driver = Driver(PROGRAM, str(tmp_path), log=tmp_path / "log", failpoints=held)
    with driver:
        driver.wait_for_hold(hold)
        assert (numbers(query / "ledger/prepared"), numbers(query / "spark/commits")) == ([0, 1], [0])
        assert [path.parent.name for path in sorted(state.glob("*/2.delta"))] == ["0", "1"], "partitions as cores"
        wait_for(state, "*/2.snapshot", 2)
        driver.kill()
        with Driver(PROGRAM, str(tmp_path), log=tmp_path / "log") as successor:
            assert successor.wait() == 0, successor.tail()
    assert numbers(query / "spark/commits") == [0, 1, 2]
    write(tmp_path, *LINES)
    with Driver(PROGRAM, str(tmp_path), log=tmp_path / "log") as third:
        assert third.wait() == 0, third.tail()
    compare(tmp_path / "draws", Counter(word for line in LINES for word in line.split()))


def write(folder: Path, *lines: str) -> None:
    """One file a line; those that are there already stay as they are."""
    (folder / "in").mkdir(exist_ok=True)
    for index, line in enumerate(lines):
        file = folder / "in" / f"{index}.txt"
        if not file.exists():
            file.write_text(line + "\n")


def wait_for(folder: Path, pattern: str, count: int) -> None:
    end = time.monotonic() + 60
    while len(list(folder.glob(pattern))) < count:
        assert time.monotonic() < end, f"no {pattern} below {folder}"
        time.sleep(0.02)
