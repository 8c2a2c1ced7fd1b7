"""A driver whose tasks prepare XA branches is killed where it hurts; every row is compared. `log` is by XA; `latest`,
of the same epochs, is staged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mysql.test_mysql_kills import (
    KILLED_AT,
    each_row_is_there_once,
    shown_passwords,
    stages_of,
    started,
    write_numbers,
)
from tests.support.mariadb import PASSWORD, MariaDBServer, quoted
from tests.support.variables import variables


@pytest.fixture(autouse=True)
def _nothing_stays_prepared(mariadb: MariaDBServer) -> Iterator[None]:
    yield
    mariadb.end_branches()


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", KILLED_AT)
def test_no_row_is_lost_or_repeated_wherever_the_driver_is_killed(
    tmp_path: Path, mariadb: MariaDBServer, point: str
) -> None:
    """The numbers are unique: what a dead attempt left prepared must not hold up the next one."""
    database = mariadb.database()
    mariadb.execute(f"CREATE TABLE {quoted(database)}.log (number BIGINT PRIMARY KEY, mark TEXT)")
    killed_and_started_again(tmp_path, mariadb, database, point, "xa", "xa")


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("before", "then"), [("staged", "xa"), ("xa", "staged")])
@pytest.mark.parametrize("point", ["decision.after@1", "prepared.after@1", "commit.after@2"])
def test_a_job_may_change_its_protocol_between_starts(
    tmp_path: Path, mariadb: MariaDBServer, before: str, then: str, point: str
) -> None:
    killed_and_started_again(tmp_path, mariadb, mariadb.database(), point, before, then)


def killed_and_started_again(
    folder: Path, server: MariaDBServer, database: str, point: str, before: str, then: str
) -> None:
    write_numbers(folder)
    with variables({"THE_PASSWORD": PASSWORD}):
        hold = folder / "hold"
        with started(folder, server, database, failpoints=f"{point}=hold:{hold}", protocol=before) as driver:
            driver.wait_for_hold(hold)
            driver.kill_all()
        with started(folder, server, database, protocol=then) as driver:
            assert driver.wait() == 0, driver.tail()
    each_row_is_there_once(folder, server, database)
    assert stages_of(server, database) == []
    assert server.branches() == []
    assert shown_passwords(folder) == []
