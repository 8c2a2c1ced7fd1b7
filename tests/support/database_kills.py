"""A driver that writes to a database and SQLite at once is killed where it hurts; every row is compared.

A suite for each protocol, with a fixture `target`. The protocol that a test names is that of `log`; `latest`, of the
same epochs, is staged.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.support.database_program import KEYS
from tests.support.driver import Driver
from tests.support.killed_epochs import FILES, KILL_POINTS, killed_at, run_to_the_end, shown_passwords, write_numbers
from tests.support.today import sampled
from tests.support.variables import variables

PROGRAM = Path(__file__).with_name("database_program.py")
STAGED = "staged"

KILLED_AT = sampled(KILL_POINTS, every=2)


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

    def started(self, folder: Path, failpoints: str, protocol: str) -> Driver:
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
        killed_at(folder, point, lambda failpoints: target.started(folder, failpoints, before))
        run_to_the_end(lambda failpoints: target.started(folder, failpoints, then))
    each_row_is_there_once(folder, target)
    assert target.left_over() == []
    assert shown_passwords(folder, target.password) == []


def each_row_is_there_once(folder: Path, target: DatabaseTarget) -> None:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        wanted = database.execute("SELECT number, mark FROM rows").fetchall()
    log = target.rows("number, mark", "log")
    assert Counter(log) == Counter(wanted), "both sinks have the rows of one evaluation"
    assert sorted(number for number, _ in log) == list(range(FILES * KEYS))
    newest = [(number, mark) for number, mark in sorted(wanted)[-KEYS:] if number % 7]
    assert sorted(target.rows("number, mark", "latest")) == newest
