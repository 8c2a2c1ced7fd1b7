"""A driver that writes to a database and SQLite at once is killed where it hurts; every row is compared.

A suite for each protocol, with a fixture `target`. The protocol that a test names is that of `log`; `latest`, of the
same epochs, is staged.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.support.database_program import KEYS
from tests.support.driver import Driver
from tests.support.today import sampled
from tests.support.variables import variables

PROGRAM = Path(__file__).with_name("database_program.py")
FILES = 4
STAGED = "staged"

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


class DatabaseTarget(ABC):
    """A database of the test's own, on a real server. `kind`: of `database_program`."""

    kind: ClassVar[str]
    prepared: ClassVar[str]
    """The protocol in which tasks prepare."""
    password: ClassVar[str]

    @property
    @abstractmethod
    def arguments(self) -> tuple[str, str]:
        """The address of the server and the name of the database or schema, for the program."""

    @abstractmethod
    def rows(self, columns: str, table: str) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def make_unique_log(self) -> None:
        """Create the table `log (number, mark)` with a primary key on its numbers."""

    @abstractmethod
    def left_over(self) -> list[str]:
        """Stages of the sinks, and what is prepared."""

    def started(self, folder: Path, *, failpoints: str = "", protocol: str = STAGED) -> Driver:
        arguments = (self.kind, str(folder), *self.arguments, protocol)
        return Driver(PROGRAM, *arguments, log=folder / "log", failpoints=failpoints)


class StagedKills:
    """Rows that wait in stages."""

    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("point", KILLED_AT)
    def test_no_row_is_lost_or_repeated_wherever_the_driver_is_killed(
        self, tmp_path: Path, target: DatabaseTarget, point: str
    ) -> None:
        killed_and_started_again(tmp_path, target, point, STAGED, STAGED)


class PreparedKills:
    """Rows that tasks have prepared."""

    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("point", KILLED_AT)
    def test_no_row_is_lost_or_repeated_wherever_the_driver_is_killed(
        self, tmp_path: Path, target: DatabaseTarget, point: str
    ) -> None:
        """The numbers are unique: what a dead attempt left prepared must not hold up the next one."""
        target.make_unique_log()
        killed_and_started_again(tmp_path, target, point, target.prepared, target.prepared)

    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("to_staged", [False, True], ids=["to prepared", "to staged"])
    @pytest.mark.parametrize("point", ["decision.after@1", "prepared.after@1", "commit.after@2"])
    def test_a_job_may_change_its_protocol_between_starts(
        self, tmp_path: Path, target: DatabaseTarget, point: str, *, to_staged: bool
    ) -> None:
        before, then = (target.prepared, STAGED) if to_staged else (STAGED, target.prepared)
        killed_and_started_again(tmp_path, target, point, before, then)


def killed_and_started_again(folder: Path, target: DatabaseTarget, point: str, before: str, then: str) -> None:
    write_numbers(folder)
    with variables({"THE_PASSWORD": target.password}):
        hold = folder / "hold"
        with target.started(folder, failpoints=f"{point}=hold:{hold}", protocol=before) as driver:
            driver.wait_for_hold(hold)
            driver.kill_all()
        with target.started(folder, protocol=then) as driver:
            assert driver.wait() == 0, driver.tail()
    each_row_is_there_once(folder, target)
    assert target.left_over() == []
    assert shown_passwords(folder, target.password) == []


def write_numbers(folder: Path) -> None:
    (folder / "in").mkdir()
    for file in range(FILES):
        lines = [json.dumps({"number": number}) for number in range(file * KEYS, (file + 1) * KEYS)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


def each_row_is_there_once(folder: Path, target: DatabaseTarget) -> None:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        wanted = database.execute("SELECT number, mark FROM rows").fetchall()
    log = target.rows("number, mark", "log")
    assert Counter(log) == Counter(wanted), "both sinks have the rows of one evaluation"
    assert sorted(number for number, _ in log) == list(range(FILES * KEYS))
    newest = [(number, mark) for number, mark in sorted(wanted)[-KEYS:] if number % 7]
    assert sorted(target.rows("number, mark", "latest")) == newest


def shown_passwords(folder: Path, password: str) -> list[str]:
    """The files of the job with the password in them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if password.encode() in path.read_bytes()]
