"""Executors that come and go: how many transactional ids a broker sees of them, and what a lost one leaves open."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient

from tests.kafka.conftest import no_more_producers
from tests.kafka.seen import await_markers, open_transactions, visible_now
from tidegate.core.records import Attempt, Committable
from tidegate.sinks.base import SinkPlan, Transaction
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

EXECUTORS = 12
EXPIRATION_SECONDS = 3
BOUND_SECONDS = 120.0

Sinks = Callable[[Broker, Path], KafkaSink]


@pytest.fixture
def sink_of(monkeypatch: pytest.MonkeyPatch) -> Sinks:
    """A sink of its own topic and prefix, whose executors have their places in this folder."""
    monkeypatch.setattr("tidegate.sinks.orphans.LOOK_FOR_ORPHANS_SECONDS", 0.0)

    def made(broker: Broker, place: Path) -> KafkaSink:
        monkeypatch.setenv("TIDEGATE_PLACE", str(place))
        topic = make_topic(broker.servers, 2)
        sink = KafkaSink("numbers", broker.servers, topic=topic, transactional_id_prefix=topic, transaction_timeout=60)
        sink.open(SinkPlan(identity=IDENTITY, schema=SCHEMA, mode="append", local_master=False, read_journal=_none))
        return sink

    return made


def test_executors_of_one_host_use_the_same_ids_one_after_the_other(
    broker: Broker, tmp_path: Path, sink_of: Sinks
) -> None:
    """Every other one is lost with an open transaction: the next one fences it, since it has its id."""
    sink = sink_of(broker, tmp_path / "place")
    for number in range(EXECUTORS):
        committable = prepared(sink, attempt_of(epoch=number), rows_from(number, 2), finished=number - 1)
        if number % 2:
            sink.commit([committable])
        no_more_producers()  # this executor has ended
    assert len(known_ids(broker, sink)) <= 2
    end_what_is_open(sink)
    assert open_transactions(broker.servers, sink.prefix) == []
    assert numbers(broker, sink) == sorted(1000 * n + row for n in range(1, EXECUTORS, 2) for row in range(2))


def test_what_executors_leave_open_on_disks_that_are_lost_with_them_ends_at_the_second_epoch(
    broker: Broker, tmp_path: Path, sink_of: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their ids are on no disk any more; the broker lists them."""
    sink = sink_of(broker, tmp_path / "first")
    seen = prepared(sink, attempt_of(epoch=0), rows_from(0, 2))
    for number in range(EXECUTORS):
        monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path / f"disk-{number}"))
        written(sink.begin(attempt_of(epoch=0, task=number + 1)), rows_from(5, 2))
    no_more_producers()
    sink.commit([seen])
    await_markers(broker.servers)
    assert len(open_transactions(broker.servers, sink.prefix)) == EXECUTORS
    end_what_is_open(sink)
    assert open_transactions(broker.servers, sink.prefix) == []
    assert numbers(broker, sink) == [0, 1]
    assert len(known_ids(broker, sink)) >= EXECUTORS, "of each disk its own"


@pytest.mark.more
@pytest.mark.timeout(400)
def test_a_broker_forgets_the_ids_of_lost_disks_and_the_evidence_of_what_they_wrote_stays(
    short_memory: Broker, tmp_path: Path, sink_of: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`transactional.id.expiration.ms`, 7 days by default: what bounds the ids where each executor has a disk of its
    own."""
    sink = sink_of(short_memory, tmp_path / "first")
    committed: list[Committable] = []
    for number in range(EXECUTORS):
        monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path / f"disk-{number}"))
        committed.append(prepared(sink, attempt_of(epoch=number), rows_from(number, 2), finished=number - 1))
        sink.commit([committed[-1]])
        no_more_producers()
    end = time.monotonic() + BOUND_SECONDS
    while known_ids(short_memory, sink):
        assert time.monotonic() < end, known_ids(short_memory, sink)
        time.sleep(0.2)
    assert [sink.evidence(each).name for each in committed] == ["PRESENT"] * EXECUTORS
    assert sink.commit([committed[-1]])[0].outcome.name in {"ALREADY", "LOST"}, "never committed once more"
    assert len(numbers(short_memory, sink)) == 2 * EXECUTORS


@pytest.fixture(scope="module")
def short_memory() -> Iterator[Broker]:
    """A broker that forgets transactional ids that were not used for some seconds."""
    settings = {
        "transactional.id.expiration.ms": str(1000 * EXPIRATION_SECONDS),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    }
    with Broker.start("short-memory", settings=settings) as broker:
        yield broker


def prepared(sink: KafkaSink, attempt: Attempt, batch: pa.RecordBatch, *, finished: int = -1) -> Committable:
    return written(sink.in_epoch(finished).begin(attempt), batch)


def written(transaction: Transaction, batch: pa.RecordBatch) -> Committable:
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


def end_what_is_open(sink: KafkaSink) -> None:
    """Two epochs begin, while nothing of this sink is under way."""
    for _ in range(2):
        sink.in_epoch(10**6)


def known_ids(broker: Broker, sink: KafkaSink) -> list[str]:
    """All transactional ids of the sink that the broker keeps, in any state."""
    admin: Any = KafkaAdminClient(bootstrap_servers=broker.servers)
    try:
        names = [each.transactional_id for found in admin.list_transactions().values() for each in found]
        return sorted(name for name in names if name.startswith(sink.prefix))
    finally:
        admin.close()


def numbers(broker: Broker, sink: KafkaSink) -> list[int]:
    """What a reader with read_committed sees; it waits for no transaction."""
    rows = visible_now(broker.servers, sink.topic or "")
    return sorted(json.loads(row.value or b"")["id"] for row in rows)


def _none(_: object) -> Iterator[pa.RecordBatch]:
    yield from ()
