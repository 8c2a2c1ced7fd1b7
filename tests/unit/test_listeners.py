"""Functions of the user's that hear what happens in a job, and that cannot harm it."""

from __future__ import annotations

import logging
import threading

import pytest

from tidegate import happenings
from tidegate.core.happenings import EpochDone
from tidegate.spark import listeners
from tidegate.spark.listeners import Delivery, JobEvent


def happen(delivery: Delivery, *epochs: int) -> None:
    for epoch in epochs:
        delivery.happened("query", 1, EpochDone(epoch, rows=2))


def epochs_of(heard: list[JobEvent]) -> list[int]:
    return [event.happening.epoch for event in heard if isinstance(event.happening, happenings.EpochDone)]


def test_a_listener_hears_every_event_in_order_in_a_thread_of_its_own() -> None:
    heard: list[JobEvent] = []
    threads: set[str] = set()

    def listen(event: JobEvent) -> None:
        heard.append(event)
        threads.add(threading.current_thread().name)

    delivery = Delivery("job", listen)
    happen(delivery, *range(100))
    delivery.ended(None)
    assert epochs_of(heard) == list(range(100))
    assert {(event.job, event.query, event.run) for event in heard} == {("job", "query", 1)}
    assert threading.current_thread().name not in threads
    assert (len(threads), delivery.dropped) == (1, 0)


def test_one_that_raises_is_told_of_once_and_hears_the_next_event(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[JobEvent] = []

    def fail(event: JobEvent) -> None:
        heard.append(event)
        raise SystemExit("of the listener")

    delivery = Delivery("job", fail)
    with caplog.at_level(logging.WARNING, "tidegate"):
        happen(delivery, 0, 1, 2)
        delivery.ended(None)
    assert epochs_of(heard) == [0, 1, 2]
    (said,) = [record.getMessage() for record in caplog.records]
    assert "SystemExit: of the listener" in said


def test_one_that_blocks_loses_events_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listeners, "_END_SECONDS", 0.1)
    blocked, go_on = threading.Event(), threading.Event()

    def block(_: JobEvent) -> None:
        blocked.set()
        go_on.wait()

    delivery = Delivery("job", block, waiting_at_most=3)
    with caplog.at_level(logging.WARNING, "tidegate"):
        happen(delivery, 0)
        assert blocked.wait(30)
        happen(delivery, *range(1, 11))
        delivery.ended(None)
    go_on.set()
    assert delivery.dropped == 7
    too_slow, unheard = [record.getMessage() for record in caplog.records]
    assert "is too slow: 3 events wait" in too_slow
    assert "did not receive 10 events" in unheard


def test_nothing_is_delivered_once_the_job_has_ended() -> None:
    heard: list[JobEvent] = []
    delivery = Delivery("job", heard.append)
    delivery.ended(None)
    happen(delivery, 0)
    assert heard == []
