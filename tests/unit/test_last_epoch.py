"""The epoch at the end of time in Spark's log: added once, and taken back only while it counts for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.core.drain import (
    END_OF_TIME_MS,
    add_last_epoch,
    has_come_to_the_end,
    last_epoch_is_due,
    take_back_last_epoch,
)
from tidegate.core.effects import Get, List, PutIfAbsent, Recall, SetAside, Steps, Tell
from tidegate.core.ledger import COMMITS, DECIDED, OFFSETS, Query, entry, numbers
from tidegate.core.records import Decided, encode
from tidegate.storages.local.storage import LocalStorage

QUERY = Query(job="job", job_id="j0", generation=1, uid="query", sources=("s",), sinks=("a",))
COMMITTED = b'v1\n{"nextBatchWatermarkMs":0}'


class Log:
    """A query's folder. Epoch 0 is decided."""

    def __init__(self, folder: Path) -> None:
        self.storage = LocalStorage(folder)
        self.start(0, 1000)
        self.decide(0)

    def start(self, epoch: int, watermark_ms: int) -> None:
        offsets = b'v1\n{"batchWatermarkMs":%d,"conf":{}}\n{"logOffset":0}' % watermark_ms
        self.storage.put_if_absent(entry(OFFSETS, epoch), offsets)

    def commit(self, epoch: int) -> None:
        self.storage.put_if_absent(entry(COMMITS, epoch), COMMITTED)

    def decide(self, epoch: int) -> None:
        self.commit(epoch)
        offsets = self.storage.read(entry(OFFSETS, epoch)) or b""
        decided = Decided(epoch=epoch, run=1, prepared_digest="d", offsets=offsets, commits=COMMITTED)
        self.storage.put_if_absent(entry(DECIDED, epoch), encode(decided))

    def run(self, steps: Steps[Any]) -> Any:
        result: object = None
        try:
            while True:
                match steps.send(result):
                    case Get(name) | Recall(name):
                        result = self.storage.read(name)
                    case List(folder):
                        result = self.storage.list(folder)
                    case PutIfAbsent(name, data):
                        result = self.storage.put_if_absent(name, data)
                    case SetAside(name):
                        result = self.storage.set_aside(name)
                    case Tell():
                        result = None
                    case other:
                        raise AssertionError(other)
        except StopIteration as stop:
            return stop.value

    def add(self, *, closes_windows: bool = True) -> bool:
        return self.run(add_last_epoch(QUERY, closes_windows=closes_windows))

    def started(self) -> list[int]:
        return self.run(numbers(OFFSETS))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_a_query_that_waits_for_nothing_has_no_last_epoch(log: Log):
    assert not log.add(closes_windows=False)
    assert log.started() == [0]


def test_what_was_cut_off_at_the_stop_comes_first(log: Log):
    log.start(1, 2000)
    assert (log.add(), log.run(last_epoch_is_due()), log.started()) == (True, False, [0, 1])
    log.decide(1)
    assert (log.add(), log.run(last_epoch_is_due()), log.started()) == (True, True, [0, 1, 2])


def test_nothing_follows_the_end_of_time_whatever_is_due_behind_it(log: Log):
    log.add()
    log.decide(1)
    log.start(2, END_OF_TIME_MS + 1)
    assert not log.add(), "it would be followed by another one"
    assert not log.add(closes_windows=False)


def test_the_last_epoch_is_taken_back_while_it_counts_for_nothing(log: Log):
    log.add()
    log.run(take_back_last_epoch())
    assert log.started() == [0]
    assert (log.run(last_epoch_is_due()), log.run(has_come_to_the_end())) == (False, False)
    assert log.add(), "it may be asked for again"


@pytest.mark.parametrize("how", ["commit", "decide"])
def test_a_last_epoch_that_counts_has_no_way_back(log: Log, how: str):
    log.add()
    getattr(log, how)(1)
    log.run(take_back_last_epoch())
    assert log.started() == [0, 1]
    assert (log.run(last_epoch_is_due()), log.run(has_come_to_the_end())) == (False, True)


def test_another_epoch_is_not_taken_back(log: Log):
    log.start(1, 2000)
    log.run(take_back_last_epoch())
    assert log.started() == [0, 1]
