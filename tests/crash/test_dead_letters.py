"""A driver that is killed while an epoch has dead letters: each row is in one place, once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.driver import Driver
from tests.support.today import turn

PROGRAM = Path(__file__).with_name("dead_letters_program.py")
FILES = 3


@turn(2, of=4)
@pytest.mark.timeout(400)
def test_rows_and_dead_letters_stay_exact_when_the_driver_dies_before_prepared_and_between_their_commits(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        file = tmp_path / "in" / f"{number}.txt"
        file.write_text(f"sea {number}\npoison\nbay {number}\n")
        os.utime(
            file, (1_700_000_000 + number, 1_700_000_000 + number)
        )  # Spark reads files in the order of their times
    with closing(sqlite3.connect(tmp_path / "out.db")) as owner:
        owner.execute("CREATE TABLE words (value TEXT CHECK (value <> 'poison'))")

    die(tmp_path, "prepared.before@0")
    assert (table(tmp_path), dead(tmp_path)) == ([], [])

    die(tmp_path, "commit.after@1")
    both = ["bay 0", "bay 1", "sea 0", "sea 1"]
    assert table(tmp_path) == both, "the rows of epoch 1 are committed"
    assert dead(tmp_path) == [(0, "poison")], "its dead letter is not"

    with Driver(PROGRAM, str(tmp_path), log=tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail()
    assert table(tmp_path) == sorted(f"{word} {number}" for word in ("sea", "bay") for number in range(FILES))
    letters = dead(tmp_path)
    assert letters[:2] == [(0, "poison"), (1, "poison")]
    assert [word for _, word in letters] == ["poison"] * FILES


def die(folder: Path, failpoint: str) -> None:
    with Driver(PROGRAM, str(folder), log=folder / "log", failpoints=f"{failpoint}=crash") as driver:
        assert driver.wait() == -signal.SIGKILL, driver.tail()


def table(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        return sorted(value for (value,) in database.execute("SELECT value FROM words"))


def dead(folder: Path) -> list[tuple[int, str]]:
    lines = [line for file in (folder / "dead").glob("*.json") for line in file.read_text().splitlines()]
    letters = [json.loads(line) for line in lines]
    return sorted((letter["epoch"], json.loads(letter["row"])["value"]) for letter in letters)
