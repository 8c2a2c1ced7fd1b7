"""A failover to a replica of Redis that lacks the last epochs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.redis.test_redis_kills import each_key_has_its_total, started
from tests.support.killed_epochs import write_numbers
from tests.support.redis import PASSWORD, RedisServer, packages, running
from tests.support.today import turn
from tests.support.variables import variables

_SECONDS = 30.0


@pytest.fixture
def pair() -> Iterator[tuple[RedisServer, RedisServer]]:
    with ExitStack() as ended:
        primary = RedisServer(packages())
        ended.enter_context(running(primary))
        replica = RedisServer(packages(), masterauth=PASSWORD, replicaof=f"127.0.0.1 {primary.port}")
        ended.enter_context(running(replica))
        yield primary, replica


@turn(5, of=6)
@pytest.mark.timeout(400)
def test_a_replica_that_lacks_epochs_is_refused_and_ends_exact_after_going_back(
    tmp_path: Path, pair: tuple[RedisServer, RedisServer]
) -> None:
    """Their rows are noticed to be missing by the evidence of their epochs."""
    primary, replica = pair
    prefix = primary.prefix()
    with variables({"THE_PASSWORD": PASSWORD}):
        write_numbers(tmp_path, range(2))
        assert run(tmp_path, primary, prefix) == 0
        with primary.client() as client, replica.client() as other:
            await_copy(client, other)
            other.execute_command("REPLICAOF", "NO", "ONE")
        write_numbers(tmp_path, range(2, 4))
        assert run(tmp_path, primary, prefix) == 0
        primary.kill()
        assert run(tmp_path, replica, prefix) != 0
        told = (tmp_path / "log").read_text(errors="replace")
        assert "TG-SINK-BEHIND" in told
        assert "expected: epoch 3" in told
        assert "found:    epoch 1" in told
        assert "go back to retained checkpoint 2" in told
        assert run(tmp_path, replica, prefix, back_to="2") == 0
    each_key_has_its_total(tmp_path, replica, prefix)


def run(folder: Path, server: RedisServer, prefix: str, *, back_to: str = "") -> int:
    with started(folder, server, prefix, 0, back_to=back_to) as driver:
        return driver.wait()


def await_copy(primary: Any, replica: Any) -> None:
    """Until the replica has everything that the primary has now."""
    wanted, end = primary.info("replication")["master_repl_offset"], time.monotonic() + _SECONDS
    while replica.info("replication")["master_repl_offset"] < wanted:
        assert time.monotonic() < end, replica.info("replication")
        time.sleep(0.05)
