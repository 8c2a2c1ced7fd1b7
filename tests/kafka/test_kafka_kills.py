"""A driver that writes to Kafka and SQLite at once is killed at the places where it hurts; every row is compared."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.kafka.seen import open_transactions, visible_now
from tests.support.driver import Driver
from tests.support.today import sampled, turn
from tidegate.core.records import JobRecord, decode
from tidegate.sinks.kafka.names import ids_begin
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

PROGRAM = Path(__file__).with_name("exact_program.py")
FILES, ROWS = 7, 60

KILLED_AT = sampled(
    [
        pytest.param(["prepared.after@1", "done.before@2"], id="prepared, not done"),
        pytest.param(["decision.before@1", "commit.before@2"], id="not decided, not committed"),
        pytest.param(["task.prepared@1", "commit.after@2"], id="in a task, committed"),
    ],
    every=4,
    on=2,
)
"""An epoch passes these failpoints, in this order. Each one strikes in an epoch of its own."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("points", KILLED_AT)
def test_no_row_is_lost_or_repeated_wherever_the_driver_is_killed(
    tmp_path: Path, broker: Broker, points: list[str]
) -> None:
    topic = make_topic(broker.servers)
    write_numbers(tmp_path)
    for number, point in enumerate(points):
        hold = tmp_path / f"hold-{number}"
        with started(tmp_path, broker, topic, 60, failpoints=f"{point}=hold:{hold}") as driver:
            driver.wait_for_hold(hold)
            driver.kill_all()
    with started(tmp_path, broker, topic, 60) as driver:
        assert driver.wait() == 0, driver.tail()
    both_have_every_row_once(tmp_path, broker, topic)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("timeout_seconds", "dead_seconds"),
    [pytest.param(5, 0, id="5 s"), pytest.param(10, 30, id="10 s, dead for 30 s", marks=pytest.mark.more)],
)
@turn(3, of=4)
def test_a_decided_transaction_that_the_broker_has_aborted_is_written_again(
    tmp_path: Path, broker: Broker, timeout_seconds: float, dead_seconds: float
) -> None:
    """Its timeout passes while the driver is dead; the rows come from the journal, and nobody sees them twice."""
    topic = make_topic(broker.servers)
    write_numbers(tmp_path)
    hold = tmp_path / "hold"
    with started(tmp_path, broker, topic, timeout_seconds, failpoints=f"commit.before@2=hold:{hold}") as driver:
        driver.wait_for_hold(hold)
        driver.kill_all()
    time.sleep(dead_seconds)
    aborted_by_the_broker(tmp_path, broker)
    with started(tmp_path, broker, topic, timeout_seconds) as driver:
        assert driver.wait() == 0, driver.tail()
        assert json.loads(driver.tail().splitlines()[-1])["redone"] > 0
        assert re.search(r"epoch 2, sink \w+: redone", driver.tail()), "shown to whoever has set up no logging"
    both_have_every_row_once(tmp_path, broker, topic)


def started(folder: Path, broker: Broker, topic: str, timeout_seconds: float, *, failpoints: str = "") -> Driver:
    arguments = (str(folder), broker.servers, topic, str(timeout_seconds))
    return Driver(PROGRAM, *arguments, log=folder / "log", failpoints=failpoints)


def write_numbers(folder: Path, files: int = FILES) -> None:
    (folder / "in").mkdir()
    for file in range(files):
        lines = [json.dumps({"number": number}) for number in range(file * ROWS, (file + 1) * ROWS)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


def both_have_every_row_once(folder: Path, broker: Broker, topic: str, files: int = FILES) -> None:
    assert open_transactions(broker.servers, ids_of(folder)) == []
    with closing(sqlite3.connect(folder / "out.db")) as database:
        table = Counter(database.execute("SELECT number, mark FROM rows").fetchall())
    rows = [json.loads(row.value or b"") for row in visible_now(broker.servers, topic)]
    messages = Counter((row["number"], row["mark"]) for row in rows)
    assert sorted(number for number, _ in table.elements()) == list(range(files * ROWS))
    assert messages == table, "both sinks have the rows of one evaluation"


def ids_of(folder: Path) -> str:
    """What the transactional ids of the program's job begin with."""
    record = folder / "checkpoints/exact/job.json"
    return f"{ids_begin('')}{decode(JobRecord, record.read_bytes(), str(record)).job_id}."


def aborted_by_the_broker(folder: Path, broker: Broker) -> None:
    end = time.monotonic() + 60
    while open_transactions(broker.servers, ids_of(folder)):
        assert time.monotonic() < end, "the broker aborts what is open for too long"
        time.sleep(0.2)
