"""A driver that writes to Delta tables and SQLite at once is killed where it hurts; every row is compared."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.delta import opened, rows_of
from tests.support.driver import Driver
from tests.support.killed_epochs import EACH, FILES, KILL_POINTS, killed_at, run_to_the_end, write_numbers
from tests.support.s3 import S3Server

PROGRAM = Path(__file__).with_name("job_program.py")


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", KILL_POINTS)
def test_no_row_is_lost_or_repeated_wherever_the_driver_is_killed(tmp_path: Path, point: str) -> None:
    killed_and_finished(tmp_path, str(tmp_path), point)
    for table in ("log", "parted", "newest"):
        assert [path for path in (tmp_path / table / ".tidegate").rglob("*.staged") if path.is_file()] == []


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["commit.before@2", "commit.after@2"])
def test_no_row_is_lost_or_repeated_in_tables_on_s3(tmp_path: Path, s3: S3Server, point: str) -> None:
    killed_and_finished(tmp_path, str(s3.folder()), point)


def killed_and_finished(folder: Path, tables: str, point: str) -> None:
    def start(failpoints: str) -> Driver:
        return Driver(PROGRAM, str(folder), tables, log=folder / "driver.log", failpoints=failpoints)

    write_numbers(folder)
    killed_at(folder, point, start)
    run_to_the_end(start)
    each_row_is_there_once(folder, tables)


def each_row_is_there_once(folder: Path, tables: str) -> None:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        wanted = database.execute("SELECT number, mark FROM rows").fetchall()
        newest = database.execute("SELECT word, number, mark, part FROM newest").fetchall()
    log = [(row["number"], row["mark"]) for row in rows_of(f"{tables}/log")]
    assert Counter(log) == Counter(wanted), "both sinks have the rows of one evaluation"
    assert sorted(number for number, _ in log) == list(range(FILES * EACH))
    parted = rows_of(f"{tables}/parted")
    assert Counter((row["number"], row["mark"]) for row in parted) == Counter(wanted)
    assert {row["number"] % 3 == row["part"] for row in parted} == {True}
    by_key = [(row["word"], row["number"], row["mark"], row["part"]) for row in rows_of(f"{tables}/newest")]
    assert sorted(by_key) == sorted(newest), "each key once, with the last row of it"
    assert opened(f"{tables}/log").version() == FILES, "an epoch is one commit, behind the one that made the table"
