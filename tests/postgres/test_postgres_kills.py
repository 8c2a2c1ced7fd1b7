"""A driver that writes to PostgreSQL and SQLite at once is killed where it hurts; every row is compared."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.driver import Driver
from tests.support.postgres import PASSWORD, PostgresServer, quoted
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
    ],
    every=2,
)
"""An epoch passes these failpoints, in this order."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", KILLED_AT)
def test_no_row_is_lost_or_repeated_wherever_the_driver_is_killed(
    tmp_path: Path, postgres: PostgresServer, point: str
) -> None:
    schema = postgres.schema()
    write_numbers(tmp_path)
    with variables({"THE_PASSWORD": PASSWORD}):
        hold = tmp_path / "hold"
        with started(tmp_path, postgres, schema, failpoints=f"{point}=hold:{hold}") as driver:
            driver.wait_for_hold(hold)
            driver.kill_all()
        with started(tmp_path, postgres, schema) as driver:
            assert driver.wait() == 0, driver.tail()
    each_row_is_there_once(tmp_path, postgres, schema)
    assert stages_of(postgres, schema) == []
    assert shown_passwords(tmp_path) == []


def started(
    folder: Path, server: PostgresServer, schema: str, *, failpoints: str = "", protocol: str = "staged"
) -> Driver:
    conninfo = server.conninfo.replace(f" password={PASSWORD}", "")
    return Driver(PROGRAM, str(folder), conninfo, schema, protocol, log=folder / "log", failpoints=failpoints)


def write_numbers(folder: Path) -> None:
    (folder / "in").mkdir()
    for file in range(FILES):
        lines = [json.dumps({"number": number}) for number in range(file * KEYS, (file + 1) * KEYS)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


def each_row_is_there_once(folder: Path, server: PostgresServer, schema: str) -> None:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        wanted = database.execute("SELECT number, mark FROM rows").fetchall()
    log = server.execute(f"SELECT number, mark FROM {quoted(schema)}.log")
    assert Counter(log) == Counter(wanted), "both sinks have the rows of one evaluation"
    assert sorted(number for number, _ in log) == list(range(FILES * KEYS))
    latest = server.execute(f"SELECT key, number, mark FROM {quoted(schema)}.latest ORDER BY key")
    newest = [(number % KEYS, number, mark) for number, mark in sorted(wanted)[-KEYS:]]
    assert latest == [row for row in newest if row[1] % 7]


def stages_of(server: PostgresServer, schema: str) -> list[str]:
    found = server.execute(
        r"SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE '\_tidegate\_stage%%'", (schema,)
    )
    return [name for (name,) in found]


def shown_passwords(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if PASSWORD.encode() in path.read_bytes()]
