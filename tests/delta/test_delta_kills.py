"""A driver that writes to Delta tables and SQLite at once is killed where it hurts; every row is compared."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.delta import opened, rows_of
from tests.support.driver import Driver
from tests.support.s3 import S3Server

PROGRAM = Path(__file__).with_name("job_program.py")
FILES, EACH = 4, 60

KILLED_AT = [
    pytest.param("task.write@1", id="half written"),
    pytest.param("task.prepared@1", id="in a task"),
    pytest.param("prepared.after@1", id="prepared"),
    pytest.param("decision.before@1", id="not decided"),
    pytest.param("decision.after@1", id="decided"),
    pytest.param("commit.before@2", id="not committed"),
    pytest.param("commit.after@2", id="committed"),
    pytest.param("done.before@2", id="not done"),
    pytest.param("finished.before@2", id="not finished"),
    pytest.param("gc.clean.before@2", id="not cleaned"),
]
"""An epoch passes these failpoints, in this order."""


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", KILLED_AT)
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
    write_numbers(folder)
    hold = folder / "hold"
    with started(folder, tables, failpoints=f"{point}=hold:{hold}") as driver:
        driver.wait_for_hold(hold)
        driver.kill_all()
    with started(folder, tables) as driver:
        assert driver.wait() == 0, driver.tail()
    each_row_is_there_once(folder, tables)


def started(folder: Path, tables: str, *, failpoints: str = "") -> Driver:
    return Driver(PROGRAM, str(folder), tables, log=folder / "driver.log", failpoints=failpoints)


def write_numbers(folder: Path) -> None:
    (folder / "in").mkdir()
    for file in range(FILES):
        lines = [json.dumps({"number": number}) for number in range(file * EACH, (file + 1) * EACH)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


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
