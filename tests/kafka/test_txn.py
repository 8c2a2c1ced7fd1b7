"""`tidegate txn` with a real broker: a driver is killed around a decision, and an operator ends what hangs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.seen import open_transactions, visible_now
from tests.kafka.test_kafka_kills import ROWS, both_have_every_row_once, ids_of, started, write_numbers
from tests.support.command import tidegate
from tests.support.today import turn
from tidegate.cli.exits import Exit
from tidegate.storages.leases import driver_or_engine_lives
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic


def txn(folder: Path, *arguments: str) -> tuple[int, Any]:
    done = tidegate("txn", *arguments, "--json", "--dir", str(folder / "checkpoints"))
    return done.code, json.loads(done.stdout) if done.stdout else done.stderr


def in_kafka(folder: Path) -> list[dict[str, Any]]:
    code, found = txn(folder, "ls", "exact")
    assert (code, found["problems"]) == (Exit.OK, [])
    return [each for each in found["transactions"] if each["sink"] == "topic"]


def numbers_in(broker: Broker, topic: str) -> list[int]:
    return sorted(json.loads(row.value or b"")["number"] for row in visible_now(broker.servers, topic))


def killed_at(point: str, folder: Path, broker: Broker, topic: str) -> None:
    hold = folder / point.replace("@", "-")
    with started(folder, broker, topic, 60, failpoints=f"{point}=hold:{hold}") as driver:
        driver.wait_for_hold(hold)
        driver.kill_all()
    end = time.monotonic() + 30
    while driver_or_engine_lives(folder / "checkpoints" / "exact"):  # its JVM takes a moment longer to die
        assert time.monotonic() < end
        time.sleep(0.05)


@turn(0, of=4)
@pytest.mark.timeout(300)
def test_what_a_killed_driver_left_open_is_ended_from_outside_and_the_next_start_repeats_nothing(
    tmp_path: Path, broker: Broker
) -> None:
    topic = make_topic(broker.servers)
    write_numbers(tmp_path)
    killed_at("commit.before@2", tmp_path, broker, topic)  # epoch 2 is decided, and not committed

    decided = in_kafka(tmp_path)
    assert {(each["epoch"], each["named"], each["seen"], each["verdict"]) for each in decided} == {
        (2, "decided", "open", "commit")
    }
    assert {each["name"].split("@")[0] for each in decided} == set(open_transactions(broker.servers, ids_of(tmp_path)))
    assert all(0 <= each["age_seconds"] < 120 for each in decided)
    before = numbers_in(broker, topic)
    name = decided[0]["name"]
    code, said = txn(tmp_path, "abort", "exact", name)
    assert code == Exit.REFUSED
    assert f"--force {name}" in said
    assert {each["name"] for each in in_kafka(tmp_path)} == {each["name"] for each in decided}, "nothing was done"

    code, told = txn(tmp_path, "commit", "exact", name)
    assert (code, told["outcome"], told["epochs"]) == (Exit.OK, "committed", [2])
    after = numbers_in(broker, topic)
    assert (len(after), len(set(after))) == (len(before) + ROWS, len(after)), "the whole epoch, for read_committed"
    assert set(before) < set(after)
    assert txn(tmp_path, "commit", "exact", name)[1]["outcome"] == "already"
    assert open_transactions(broker.servers, ids_of(tmp_path)) == []

    killed_at("prepared.after@5", tmp_path, broker, topic)  # epoch 5 is prepared, and not decided
    undecided = in_kafka(tmp_path)
    assert {(each["epoch"], each["named"], each["seen"], each["verdict"]) for each in undecided} == {
        (5, "prepared", "open", "abort")
    }
    first, *others = (each["name"] for each in undecided)
    code, said = txn(tmp_path, "commit", "exact", first)
    assert code == Exit.REFUSED
    assert "repeated" in said
    assert txn(tmp_path, "abort", "exact", first)[1]["outcome"] == "aborted"
    assert txn(tmp_path, "abort", "exact", first)[1]["outcome"] == "nothing-open"
    left = {each["name"] for each in in_kafka(tmp_path) if each["seen"] == "open"}
    assert left == set(others), "one was aborted, and no other"

    with started(tmp_path, broker, topic, 60) as driver:
        assert driver.wait() == 0, driver.tail()
    both_have_every_row_once(tmp_path, broker, topic)


@pytest.mark.more
@pytest.mark.timeout(300)
def test_a_decided_transaction_that_was_aborted_by_force_is_written_again(tmp_path: Path, broker: Broker) -> None:
    topic = make_topic(broker.servers)
    write_numbers(tmp_path)
    killed_at("commit.before@2", tmp_path, broker, topic)
    name = in_kafka(tmp_path)[0]["name"]
    assert txn(tmp_path, "abort", "exact", name, "--force", name)[1]["outcome"] == "aborted"
    assert {(each["seen"], each["verdict"]) for each in in_kafka(tmp_path) if each["name"] == name} == {
        ("gone", "commit")
    }
    with started(tmp_path, broker, topic, 60) as driver:
        assert driver.wait() == 0, driver.tail()
    both_have_every_row_once(tmp_path, broker, topic)


def test_a_cluster_is_looked_at_without_a_job(broker: Broker, tmp_path: Path) -> None:
    arguments = ["check", "--json", "--dir", str(tmp_path), "--kafka", broker.servers]
    done = tidegate(*arguments)
    (line,) = (each for each in json.loads(done.stdout) if each["what"] == f"Kafka {broker.servers}")
    assert (done.code, line["health"]) == (Exit.OK, "OK"), line
    assert "transactions of 900 s" in line["detail"]
    done = tidegate(*arguments, "-D", "checkpointing.interval=1h")
    (line,) = (each for each in json.loads(done.stdout) if each["what"] == f"Kafka {broker.servers}")
    assert (done.code, line["health"]) == (Exit.FAILED, "FAILED")
    assert "TG-SETTING-VALUE" in line["detail"]
