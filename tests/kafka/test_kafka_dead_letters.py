"""Dead letters of a Kafka sink, and in one: each row is in one place, once, whenever the driver is killed."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.kafka.seen import visible_now
from tests.support.driver import Driver
from tests.support.today import turn
from tidegate.core.errors import Code
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

PROGRAM = Path(__file__).with_name("dead_letters_program.py")
FILES = 3


@pytest.fixture
def topic(tmp_path: Path, broker: Broker) -> str:
    """Of records up to 2000 bytes; the input has a larger one among the others in each file."""
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        file = tmp_path / "in" / f"{number}.txt"
        file.write_text(f"sea {number}\n{number}{secrets.token_hex(5000)}\nbay {number}\n")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return make_topic(broker.servers, config={"max.message.bytes": "2000"})


@turn(2, of=4)
def test_a_row_that_is_too_large_for_its_topic_stands_in_a_table_and_the_end_of_the_run_counts_it(
    tmp_path: Path, broker: Broker, topic: str
) -> None:
    with started(tmp_path, broker, topic, "") as driver:
        assert driver.wait() == 0, driver.tail()
        assert "3 rows of query 'query' became dead letters (sink 'dead')" in driver.tail()
    assert words(broker, topic) == whole_input()
    with closing(sqlite3.connect(tmp_path / "dead.db")) as database:
        letters = list(database.execute("SELECT epoch, sink, code, reason, row FROM letters ORDER BY epoch"))
    assert [(epoch, sink, code) for epoch, sink, code, _, _ in letters] == [
        (epoch, "topic", Code.RECORD_REFUSED.label) for epoch in range(FILES)
    ]
    assert all("column 'value': expected" in reason and "max.message.bytes" in reason for *_, reason, _ in letters)
    assert [json.loads(row)["value"][0] for *_, row in letters] == ["0", "1", "2"]


@pytest.mark.more
@pytest.mark.timeout(300)
@pytest.mark.parametrize("points", [["commit.before@0"], ["prepared.before@0", "commit.after@1"]])
def test_dead_letters_in_a_topic_are_visible_once_they_are_committed_and_once_each(
    tmp_path: Path, broker: Broker, topic: str, points: list[str]
) -> None:
    dead = make_topic(broker.servers)
    for number, point in enumerate(points):
        hold = tmp_path / f"hold-{number}"
        with started(tmp_path, broker, topic, dead, failpoints=f"{point}=hold:{hold}") as driver:
            driver.wait_for_hold(hold)
            if point.endswith("@0"):
                assert (words(broker, topic), letters_in(broker, dead)) == ([], []), "nothing is committed yet"
            driver.kill_all()
    with started(tmp_path, broker, topic, dead) as driver:
        assert driver.wait() == 0, driver.tail()
    assert words(broker, topic) == whole_input()
    assert letters_in(broker, dead) == [(number, str(number)) for number in range(FILES)]


def started(folder: Path, broker: Broker, topic: str, dead: str, *, failpoints: str = "") -> Driver:
    return Driver(PROGRAM, str(folder), broker.servers, topic, dead, log=folder / "log", failpoints=failpoints)


def whole_input() -> list[str]:
    return sorted(f"{word} {number}" for word in ("sea", "bay") for number in range(FILES))


def words(broker: Broker, topic: str) -> list[str]:
    return sorted(json.loads(row.value or b"")["value"] for row in visible_now(broker.servers, topic))


def letters_in(broker: Broker, topic: str) -> list[tuple[int, str]]:
    """The epoch of each, and the beginning of its row."""
    found = [json.loads(row.value or b"") for row in visible_now(broker.servers, topic)]
    return sorted((letter["epoch"], json.loads(letter["row"])["value"][0]) for letter in found)
