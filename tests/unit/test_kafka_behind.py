"""How far a Kafka source is behind: counted from what is done to where the topics end, or not known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.unit.test_kafka_offsets import A0, A1, Cluster
from tidegate.sources.kafka.behind import LagGauge


@pytest.fixture
def cluster() -> Cluster:
    return Cluster({A0: 10, A1: 4})


@pytest.fixture
def behind(cluster: Cluster) -> Iterator[LagGauge]:
    opened = LagGauge(lambda: cluster, look_seconds=0.01)
    yield opened
    opened.close()


def soon(seen: Callable[[], object]) -> bool:
    end = time.monotonic() + 10
    while not seen() and time.monotonic() < end:
        time.sleep(0.005)
    return bool(seen())


def test_what_is_not_done_yet_is_counted_over_all_partitions(cluster: Cluster, behind: LagGauge):
    assert behind.records() is None, "nothing is done yet"
    behind.tell({A0: 7, A1: 4})
    assert soon(lambda: behind.records() == 3)
    cluster.ends[A1] = 9
    assert soon(lambda: behind.records() == 8), "it grows while nothing gets done"
    behind.tell({A0: 10, A1: 9})
    assert behind.records() == 0


def test_while_no_broker_answers_nobody_knows(cluster: Cluster, behind: LagGauge):
    behind.tell({A0: 7, A1: 4})
    assert soon(lambda: behind.records() == 3)
    cluster.down = True
    assert soon(lambda: behind.records() is None)
    cluster.down = False
    assert soon(lambda: behind.records() == 3)


def test_brokers_that_never_answer_hold_no_end_up(cluster: Cluster):
    def never() -> Cluster:
        time.sleep(5)
        return cluster

    asking = LagGauge(never)
    asking.tell({A0: 0})
    begun = time.monotonic()
    asking.close()
    assert time.monotonic() - begun < 3
