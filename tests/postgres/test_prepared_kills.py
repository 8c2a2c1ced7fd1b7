"""A driver whose tasks prepare their transactions is killed where it hurts; every row is compared. `log` is prepared;
`latest`, of the same epochs, is staged.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.test_postgres_kills import (
    KILLED_AT,
    each_row_is_there_once,
    shown_passwords,
    stages_of,
    started,
    write_numbers,
)
from tests.support.postgres import PASSWORD, PostgresServer, quoted
from tests.support.variables import variables

DECIDED = "decision.after@1"

pytestmark = pytest.mark.more


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", KILLED_AT)
def test_no_row_is_lost_or_repeated_wherever_the_driver_is_killed(
    tmp_path: Path, preparing: PostgresServer, point: str
) -> None:
    """The numbers are unique: what a dead attempt left prepared must not hold up the next one."""
    schema = preparing.schema()
    preparing.execute(f"CREATE TABLE {quoted(schema)}.log (number bigint PRIMARY KEY, mark text)")
    killed_and_started_again(tmp_path, preparing, schema, point, "prepared", "prepared")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("before", "then"), [("staged", "prepared"), ("prepared", "staged")])
@pytest.mark.parametrize("point", [DECIDED, "prepared.after@1", "commit.after@2"])
def test_a_job_may_change_its_protocol_between_starts(
    tmp_path: Path, preparing: PostgresServer, before: str, then: str, point: str
) -> None:
    killed_and_started_again(tmp_path, preparing, preparing.schema(), point, before, then)


def killed_and_started_again(
    folder: Path, server: PostgresServer, schema: str, point: str, before: str, then: str
) -> None:
    write_numbers(folder)
    with variables({"THE_PASSWORD": PASSWORD}):
        hold = folder / "hold"
        with started(folder, server, schema, failpoints=f"{point}=hold:{hold}", protocol=before) as driver:
            driver.wait_for_hold(hold)
            driver.kill_all()
        with started(folder, server, schema, protocol=then) as driver:
            assert driver.wait() == 0, driver.tail()
    each_row_is_there_once(folder, server, schema)
    assert stages_of(server, schema) == []
    assert prepared_in(server) == []
    assert shown_passwords(folder) == []


def prepared_in(server: PostgresServer) -> list[str]:
    return [gid for (gid,) in server.execute("SELECT gid FROM pg_prepared_xacts")]
