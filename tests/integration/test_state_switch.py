"""A million keys change their backend and change it back; each is afterwards what it was."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.integration.switch_program import AGAIN, KEYS, Compared
from tests.support.driver import Driver

PROGRAM = Path(__file__).with_name("switch_program.py")


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_million_keys_are_the_same_row_by_row_in_the_other_backend_and_back_again(tmp_path: Path):
    log = tmp_path / "log"
    with Driver(PROGRAM, str(tmp_path), log=log) as driver:
        assert driver.process.wait(580) == 0, driver.tail()
    (said,) = [line for line in log.read_text().splitlines() if line.startswith("[{")]
    assert msgspec.json.decode(said, type=list[Compared]) == [Compared(KEYS, KEYS, 0, 0)] * 2
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        rows = database.execute("SELECT count(*), min(times), max(times), sum(n) FROM sums").fetchone()
    total = sum(3 * 7 * key + 2 + 3 for key in range(AGAIN))
    assert rows == (AGAIN, 3, 3, total), "sums that were begun before a move go on behind it"
