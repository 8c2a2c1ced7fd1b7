"""A driver that writes to Iceberg tables and SQLite at once is killed where it hurts; every row is compared."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.driver import Driver
from tests.support.iceberg import opened, properties_in, rows_of
from tests.support.killed_epochs import EACH, FILES, KILL_POINTS, killed_at, run_to_the_end, write_numbers
from tests.support.s3 import S3Server
from tests.support.today import sampled
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("job_program.py")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", sampled(KILL_POINTS, every=3, on=1))
def test_no_row_is_lost_or_repeated_wherever_the_driver_is_killed(tmp_path: Path, point: str) -> None:
    killed_and_finished(tmp_path, None, point)
    assert [path for path in (tmp_path / "warehouse").rglob("*.staged") if path.is_file()] == []


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["commit.before@2", "commit.after@2"])
def test_no_row_is_lost_or_repeated_on_s3(tmp_path: Path, s3: S3Server, point: str) -> None:
    killed_and_finished(tmp_path, s3.folder(), point)


def killed_and_finished(folder: Path, warehouse: Folder | None, point: str) -> None:
    catalog = json.dumps(properties_in(folder, warehouse))

    def start(failpoints: str) -> Driver:
        return Driver(PROGRAM, str(folder), catalog, log=folder / "driver.log", failpoints=failpoints)

    write_numbers(folder)
    killed_at(folder, point, start)
    run_to_the_end(start)
    each_row_is_there_once(folder, warehouse)


def each_row_is_there_once(folder: Path, warehouse: Folder | None) -> None:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        wanted = database.execute("SELECT number, mark FROM rows").fetchall()
    log, parted = (opened(folder, warehouse, f"lake.{name}") for name in ("log", "parted"))
    found = [(row["number"], row["mark"]) for row in rows_of(log)]
    assert Counter(found) == Counter(wanted), "both sinks have the rows of one evaluation"
    assert sorted(number for number, _ in found) == list(range(FILES * EACH))
    rows = rows_of(parted)
    assert Counter((row["number"], row["mark"]) for row in rows) == Counter(wanted)
    assert {row["number"] % 3 == row["part"] for row in rows} == {True}
    assert len(log.metadata.snapshots) == FILES, "an epoch is one commit"
