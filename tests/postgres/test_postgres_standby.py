"""A failover to a standby that lacks the last epochs: the job is refused, and goes back to where the standby is."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.database_kills import PROGRAM
from tests.support.driver import Driver
from tests.support.postgres import PASSWORD, PostgresServer, following, started
from tests.support.today import sampled
from tests.support.variables import variables

ROWS = 30
PROTOCOLS = sampled([pytest.param("staged"), pytest.param("prepared")], every=6)
_SECONDS = 30.0


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    server = started(max_prepared_transactions="16")
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture
def standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    server = following(primary, max_prepared_transactions="16")
    try:
        yield server
    finally:
        server.remove()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_standby_that_lacks_epochs_is_refused_and_has_each_row_once_after_going_back(
    tmp_path: Path, primary: PostgresServer, standby: PostgresServer, protocol: str
) -> None:
    (tmp_path / "in").mkdir()
    with variables({"THE_PASSWORD": PASSWORD, "TIDEGATE_CHECKPOINTING_RETAINED": "10"}):
        put(tmp_path, 0, 1)
        assert run(tmp_path, primary, protocol)[0] == 0
        await_copy(primary, standby)
        standby.stop()
        put(tmp_path, 2, 3)
        assert run(tmp_path, primary, protocol)[0] == 0
        primary.stop()
        standby.resume()
        standby.execute("SELECT pg_promote()")
        code, told = run(tmp_path, standby, protocol)
        assert code != 0
        assert "TG-SINK-BEHIND" in told
        assert "expected: epoch 3" in told
        assert "found:    epoch 1" in told
        assert missing_rows(told) == [1, 3], "each epoch has read one file"
        checkpoint = tmp_path / "checkpoints" / "copy" / "checkpoints" / "2"
        assert f"go back to retained checkpoint 2: tidegate run -s {checkpoint} --rewind APP" in told.replace("\n", "")
        assert run(tmp_path, standby, protocol, str(checkpoint))[0] == 0
    assert sorted(number for (number,) in standby.execute("SELECT number FROM log")) == list(range(4 * ROWS))


def run(folder: Path, server: PostgresServer, protocol: str, *back_to: str) -> tuple[int, str]:
    """The exit code of the job, and what this run has told."""
    conninfo = server.conninfo.replace(f" password={PASSWORD}", "")
    log = folder / f"log-{time.monotonic_ns()}"
    with Driver(PROGRAM, "postgres", str(folder), conninfo, "public", protocol, *back_to, log=log) as driver:
        code = driver.wait()
    return code, log.read_text(errors="replace")


def missing_rows(told: str) -> list[int]:
    """The positions of the source between which the missing rows are."""
    found = re.search(
        r"behind source positions \['(.*?)'\], up to source positions \['(.*?)'\]", " ".join(told.split())
    )
    assert found is not None, told
    return [json.loads(each)["logOffset"] for each in found.groups()]


def put(folder: Path, *files: int) -> None:
    for file in files:
        lines = [json.dumps({"number": number}) for number in range(file * ROWS, (file + 1) * ROWS)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


def await_copy(primary: PostgresServer, standby: PostgresServer) -> None:
    """Until the standby has everything that the primary has now."""
    ((wanted,),) = primary.execute("SELECT pg_current_wal_flush_lsn()::text")
    end = time.monotonic() + _SECONDS
    while not standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (wanted,))[0][0]:
        assert time.monotonic() < end, "the standby does not follow"
        time.sleep(0.05)
