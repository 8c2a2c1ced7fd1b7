"""A driver that writes to Redis and SQLite at once is killed where it hurts; every key is compared, also meanwhile."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import Driver
from tests.support.redis import PASSWORD, RedisCluster, RedisServer
from tests.support.today import sampled
from tests.support.variables import variables
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("job_program.py")
FILES, KEYS = 4, 60
Total = tuple[int, int]
"""The newest number of a key, and the sum of its numbers."""

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
    ]
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
        with polled(redis_server, prefix) as seen:
            points = f"task.prepared@2=hold:{hold}"
            with started(tmp_path, redis_server, prefix, 0, back_to=str(oldest), failpoints=points) as driver:
                driver.wait_for_hold(hold)
                driver.kill_all()
            with started(tmp_path, redis_server, prefix, 0, back_to=str(oldest)) as driver:
                assert driver.wait() == 0, driver.tail()
    each_key_has_its_total(tmp_path, redis_server, prefix)
    allowed = {key: [total_of(key, files) for files in range(1, FILES + 1)] for key in range(KEYS)}
    for key, totals in seen.items():
        assert set(totals) <= set(allowed[key]), f"key {key}"
        assert sum(later < earlier for earlier, later in pairwise(totals)) <= 1, f"key {key} went back once: {totals}"
    assert any(totals != sorted(totals) for totals in seen.values()), "the reader has seen the jump"


def killed_and_compared(
    folder: Path, server: RedisServer | RedisCluster, prefix: str, buckets: int, point: str
) -> None:
    write_numbers(folder)
    with variables({"THE_PASSWORD": PASSWORD}), polled(server, prefix) as seen:
        hold = folder / "hold"
        with started(folder, server, prefix, buckets, failpoints=f"{point}=hold:{hold}") as driver:
            driver.wait_for_hold(hold)
            driver.kill_all()
        with started(folder, server, prefix, buckets) as driver:
            assert driver.wait() == 0, driver.tail()
    each_key_has_its_total(folder, server, prefix)
    assert seen, "the reader has seen rows"
    nothing_else_was_seen(seen)
    assert shown_passwords(folder) == []


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


def write_numbers(folder: Path) -> None:
    (folder / "in").mkdir()
    for file in range(FILES):
        lines = [json.dumps({"number": number}) for number in range(file * KEYS, (file + 1) * KEYS)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


# --- what a reader sees ----------------------------------------------------------------------------------------


@contextmanager
def polled(server: RedisServer | RedisCluster, prefix: str) -> Iterator[dict[int, list[Total]]]:
    """Reads all hashes again and again. By key: each total that was seen, in the order of the looks."""
    seen: dict[int, list[Total]] = {}
    over = threading.Event()

    def look() -> None:
        with server.client() as client:
            while not over.wait(0.05):
                for key, total in hashes_of(client, prefix).items():
                    totals = seen.setdefault(key, [])
                    if totals[-1:] != [total]:
                        totals.append(total)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join(60)


def nothing_else_was_seen(seen: Mapping[int, list[Total]]) -> None:
    """Each look at a key has shown its total after some file, and never an earlier one than the look before."""
    for key, totals in seen.items():
        assert set(totals) <= {total_of(key, files) for files in range(1, FILES + 1)}, f"key {key}"
        assert totals == sorted(totals), f"key {key} went back"


def total_of(key: int, files: int) -> Total:
    numbers = [key + KEYS * file for file in range(files)]
    return numbers[-1], sum(numbers)


# --- what stands at the end ------------------------------------------------------------------------------------


def each_key_has_its_total(folder: Path, server: RedisServer | RedisCluster, prefix: str) -> None:
    wanted = {key: total_of(key, FILES) for key in range(KEYS)}
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


def shown_passwords(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if PASSWORD.encode() in path.read_bytes()]
