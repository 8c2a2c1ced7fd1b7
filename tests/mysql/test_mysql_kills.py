"""A driver that writes to MySQL and SQLite at once is killed where it hurts; every row is compared."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.driver import Driver
from tests.support.mariadb import PASSWORD, MariaDBServer, quoted
from tests.support.today import sampled
from tests.support.variables import variables

PROGRAM = Path(__file__).with_name("job_program.py")
FILES, KEYS = 4, 60

KILLED_AT = sampled(
    [
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
)
"""An epoch passes these failpoints, in this order."""


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", KILLED_AT)
def test_no_row_is_lost_or_repeated_wherever_the_driver_is_killed(
    tmp_path: Path, mariadb: MariaDBServer, point: str
) -> None:
    database = mariadb.database()
    write_numbers(tmp_path)
    with variables({"THE_PASSWORD": PASSWORD}):
        hold = tmp_path / "hold"
        with started(tmp_path, mariadb, database, failpoints=f"{point}=hold:{hold}") as driver:
            driver.wait_for_hold(hold)
            driver.kill_all()
        with started(tmp_path, mariadb, database) as driver:
            assert driver.wait() == 0, driver.tail()
    each_row_is_there_once(tmp_path, mariadb, database)
    assert stages_of(mariadb, database) == []
    assert shown_passwords(tmp_path) == []


def started(
    folder: Path, server: MariaDBServer, database: str, *, failpoints: str = "", protocol: str = "staged"
) -> Driver:
    return Driver(PROGRAM, str(folder), str(server.port), database, protocol, log=folder / "log", failpoints=failpoints)


def write_numbers(folder: Path) -> None:
    (folder / "in").mkdir()
    for file in range(FILES):
        lines = [json.dumps({"number": number}) for number in range(file * KEYS, (file + 1) * KEYS)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


def each_row_is_there_once(folder: Path, server: MariaDBServer, database: str) -> None:
    with closing(sqlite3.connect(folder / "out.db")) as table:
        wanted = table.execute("SELECT number, mark FROM rows").fetchall()
    log = server.execute(f"SELECT number, mark FROM {quoted(database)}.log")
    assert Counter(log) == Counter(wanted), "both sinks have the rows of one evaluation"
    assert sorted(number for number, _ in log) == list(range(FILES * KEYS))
    latest = server.execute(f"SELECT `key`, number, mark FROM {quoted(database)}.latest ORDER BY `key`")
    newest = [(number % KEYS, number, mark) for number, mark in sorted(wanted)[-KEYS:]]
    assert latest == [row for row in newest if row[1] % 7]


def stages_of(server: MariaDBServer, database: str) -> list[str]:
    found = server.execute("SHOW TABLES", database=database)
    return [name for (name,) in found if name.startswith("_tidegate_stage")]


def shown_passwords(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if PASSWORD.encode() in path.read_bytes()]
