"""A window whose watermark has just passed when the driver is killed: it comes first, before any new row."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.driver import Driver, numbers
from tests.support.today import turn

PROGRAM = Path(__file__).with_name("windows_program.py")


@turn(2, of=4)
@pytest.mark.timeout(300)
def test_what_was_due_when_the_driver_was_killed_comes_first(tmp_path: Path) -> None:
    query, hold = tmp_path / "checkpoints/windows/queries/windows/g1", tmp_path / "hold"
    write_events(tmp_path, 0, "00:00:01", "00:00:16")
    killed = Driver(
        *(PROGRAM, str(tmp_path), "false", "for-ever"), log=tmp_path / "log", failpoints=f"gc.clean.after@0=hold:{hold}"
    )
    with killed:
        killed.wait_for_hold(hold)
        assert (numbers(query / "ledger/done"), numbers(query / "spark/offsets")) == ([0], [0])
        assert windows(tmp_path) == {}
    write_events(tmp_path, 1, "00:00:02", "00:00:17", "00:00:36")
    with Driver(PROGRAM, str(tmp_path), "true", "caught-up", log=tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail()
    assert windows(tmp_path) == {1: [("00:00:00", 1)], 3: [("00:00:10", 2)]}, "00:00:02 came too late"


def write_events(folder: Path, number: int, *times: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"at": f"2024-01-01T{time}Z"}) for time in times]
    (folder / "in" / f"{number}.json").write_text("\n".join(lines) + "\n")


def windows(folder: Path) -> dict[int, list[tuple[str, int]]]:
    """The visible rows by epoch, which the name of their file tells."""
    found: dict[int, list[tuple[str, int]]] = {}
    for file in sorted((folder / "out").glob("*.json")):
        epoch = re.search(r"-e(\d{12})-", file.name)
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        if epoch:
            found.setdefault(int(epoch[1]), []).extend((row["start"], row["count"]) for row in rows)
    return {epoch: sorted(rows) for epoch, rows in found.items()}
