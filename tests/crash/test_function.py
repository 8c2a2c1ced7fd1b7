"""The one window of a function sink: killed when the function has returned and before that is on record."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.driver import Driver, numbers
from tests.support.today import turn

PROGRAM = Path(__file__).with_name("function_program.py")
FILES = 5
HELD_EPOCH = 2


@turn(1, of=4)
@pytest.mark.timeout(300)
def test_a_function_is_called_again_with_the_same_rows_and_the_table_beside_it_stays_exact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        (tmp_path / "in" / f"{number}.txt").write_text(f"{number} a\n{number} b\n")
    ledger, hold = tmp_path / "checkpoints/functions/queries/handed/g1/ledger", tmp_path / "hold"
    with Driver(PROGRAM, str(tmp_path), str(hold), log=tmp_path / "log") as killed:
        killed.wait_for_hold(hold)
        assert max(numbers(ledger / "decided")) >= HELD_EPOCH > max(numbers(ledger / "done"))
        assert [epoch for epoch, _ in calls(tmp_path)] == [0, 1, 2]
        assert len(table(tmp_path)) == 2 * HELD_EPOCH, "the table is committed behind the function"
        killed.kill_all()
    with Driver(PROGRAM, str(tmp_path), log=tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail()
    called = calls(tmp_path)
    epochs = [epoch for epoch, _ in called]
    assert epochs[:4] == [0, 1, 2, 2]
    assert epochs[4:] in ([3, 4], [3]), "Spark had listed a file for epoch 3 before the kill, which then has two"
    assert called[2] == called[3], "the second call has the same rows, random values included"
    handed_over = sorted(row for rows in dict(called).values() for row in rows)
    assert handed_over == table(tmp_path)
    assert [line for line, _ in handed_over] == [f"{number} {each}" for number in range(FILES) for each in "ab"]
    with capsys.disabled():
        print(f"\nfunction called for epochs {epochs}, {len(handed_over)} rows compared")


def calls(folder: Path) -> list[tuple[int, list[tuple[str, float]]]]:
    found = [json.loads(line) for line in (folder / "calls").read_text().splitlines()]
    return [(epoch, [(line, lucky) for line, lucky in rows]) for epoch, rows in found]


def table(folder: Path) -> list[tuple[str, float]]:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        return sorted((line, lucky) for line, lucky in database.execute("SELECT value, lucky FROM lines"))
