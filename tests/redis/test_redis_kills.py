"""A driver that writes to Redis and SQLite at once is killed where it hurts; every key is compared, also meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import Driver
from tests.support.killed_epochs import killed_at, run_to_the_end, shown_passwords, write_numbers
from tests.support.polled_totals import KEYS, Total, each_key_went_back_once, nothing_else_was_seen, polled, total_of
from tests.support.redis import PASSWORD, RedisCluster, RedisServer
from tests.support.today import sampled
from tests.support.variables import variables
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("job_program.py")
KILLED_AT = sampled(
    [
        pytest.param("task.write@1", id="half written"),
        pytest.param("task.prepared@1", id="in a task"),
        pytest.param("prepared.before@1", id="not prepared"),
        pytest.param("prepared.after@1", id="prepared"),
        pytest.param("decision.before@1", id="not decided"),
        pytest.param("decision.after@1", id="decided"),
        pytest.param("commit.before@2", id="not committed"),
        pytest.param("commit.after@2", id="committed"),
        pytest.param("done.before@2", id="not done"),
        pytest.param("gc.clean.before@2", id="not cleaned"),
        pytest.param("recover.begun.before", id="no run has begun"),
        pytest.param("recover.begun.after", id="one sink knows the run"),
    ],
    every=2,
)
"""An epoch passes these failpoints, in this order; the last two lie before the first one."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", KILLED_AT)
def test_the_content_ends_exact_wherever_the_driver_is_killed(
    tmp_path: Path, redis_server: RedisServer, point: str
) -> None:
    killed_and_compared(tmp_path, redis_server, redis_server.prefix(), 0, point)


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["task.write@1", "task.prepared@1", "decision.after@1", "commit.after@2"])
def test_the_content_ends_exact_in_a_cluster(
    tmp_path: Path, redis_cluster: RedisCluster, redis_server: RedisServer, point: str
) -> None:
    killed_and_compared(tmp_path, redis_cluster, redis_server.prefix(), 6, point)


@pytest.mark.more
@pytest.mark.timeout(600)
def test_after_a_restore_the_content_jumps_back_and_plays_again(tmp_path: Path, redis_server: RedisServer) -> None:
    """The driver is killed in the replay as well."""
    prefix, hold = redis_server.prefix(), tmp_path / "hold"
    write_numbers(tmp_path)
    with variables({"THE_PASSWORD": PASSWORD}):
        with started(tmp_path, redis_server, prefix, 0) as driver:
            assert driver.wait() == 0, driver.tail()
        each_key_has_its_total(tmp_path, redis_server, prefix)
        oldest = retained_numbers(Folder.of(tmp_path / "checkpoints" / "totals"))[0]
        with hashes_polled(redis_server, prefix) as seen:
            points = f"task.prepared@2=hold:{hold}"
            with started(tmp_path, redis_server, prefix, 0, back_to=str(oldest), failpoints=points) as driver:
                driver.wait_for_hold(hold)
                driver.kill_all()
            with started(tmp_path, redis_server, prefix, 0, back_to=str(oldest)) as driver:
                assert driver.wait() == 0, driver.tail()
    each_key_has_its_total(tmp_path, redis_server, prefix)
    each_key_went_back_once(seen)


def killed_and_compared(
    folder: Path, server: RedisServer | RedisCluster, prefix: str, buckets: int, point: str
) -> None:
    write_numbers(folder)
    with variables({"THE_PASSWORD": PASSWORD}), hashes_polled(server, prefix) as seen:

        def start(failpoints: str) -> Driver:
            return started(folder, server, prefix, buckets, failpoints=failpoints)

        killed_at(folder, point, start)
        run_to_the_end(start)
    each_key_has_its_total(folder, server, prefix)
    nothing_else_was_seen(seen)
    assert shown_passwords(folder, PASSWORD) == []


def started(
    folder: Path,
    server: RedisServer | RedisCluster,
    prefix: str,
    buckets: int,
    *,
    failpoints: str = "",
    back_to: str = "",
) -> Driver:
    arguments = (str(folder), server.url, prefix, str(buckets), back_to)
    return Driver(PROGRAM, *arguments, log=folder / "log", failpoints=failpoints)


# --- what a reader sees ----------------------------------------------------------------------------------------


@contextmanager
def hashes_polled(server: RedisServer | RedisCluster, prefix: str) -> Iterator[dict[int, list[Total]]]:
    with server.client() as client, polled(lambda: hashes_of(client, prefix)) as seen:
        yield seen


# --- what stands at the end ------------------------------------------------------------------------------------


def each_key_has_its_total(folder: Path, server: RedisServer | RedisCluster, prefix: str) -> None:
    wanted = {key: total_of(key) for key in range(KEYS)}
    kept = {key: total for key, total in wanted.items() if total[0] % 7}
    with closing(sqlite3.connect(folder / "out.db")) as database:
        table = database.execute("SELECT key, newest, total FROM totals").fetchall()
    assert {key: (newest, total) for key, newest, total in table} == wanted
    with server.client() as client:
        assert hashes_of(client, prefix) == kept
        assert strings_of(client, prefix) == kept
        left = list(client.scan_iter(f"*{prefix}*:_tidegate:deleted"))
        assert left == [], "finished epochs have no stamps of deleted keys"


def hashes_of(client: Any, prefix: str) -> dict[int, Total]:
    rows = [client.hgetall(name) for name in rows_below(client, f"{prefix}-h")]
    return {int(row["key"]): (int(row["newest"]), int(row["total"])) for row in rows if row}


def strings_of(client: Any, prefix: str) -> dict[int, Total]:
    rows = [json.loads(client.get(name)) for name in rows_below(client, f"{prefix}-s")]
    return {row["key"]: (row["newest"], row["total"]) for row in rows}


def rows_below(client: Any, prefix: str) -> list[str]:
    return [name for name in client.scan_iter(f"*{prefix}*") if ":_tidegate" not in name]
