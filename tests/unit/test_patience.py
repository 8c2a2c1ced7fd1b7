"""How long a sink that is not ready is waited for, by a clock of the test's own."""

from __future__ import annotations

import math

import pytest

from tidegate.spark.patience import Patience


class Clock:
    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("tidegate.spark.patience.time.monotonic", lambda: clock.now)
    return clock


def test_without_a_limit_it_has_no_end(clock: Clock):
    patience = Patience()
    patience.waits()
    assert (patience.ends_at, patience.is_over()) == (math.inf, False)


def test_of_several_limits_the_first_counts(clock: Clock):
    patience = Patience()
    patience.end_in(10)
    patience.end_in(20)
    assert patience.ends_at == 110
    clock.now = 110
    assert patience.is_over()


def test_what_is_allowed_counts_from_the_first_sink_that_is_not_ready(clock: Clock):
    patience = Patience()
    patience.allow(5)
    clock.now = 200
    assert not patience.is_over(), "nothing has been waited for"
    patience.waits()
    clock.now = 203
    patience.waits()
    assert patience.ends_at == 205


def test_each_epoch_is_waited_for_anew(clock: Clock):
    patience = Patience()
    patience.allow(5)
    patience.waits()
    clock.now = 104
    patience.has_served()
    clock.now = 110
    patience.waits()
    assert patience.ends_at == 115


def test_a_limit_that_comes_while_a_sink_is_waited_for_counts_from_then(clock: Clock):
    patience = Patience()
    patience.waits()
    clock.now = 150
    patience.allow(5)
    assert patience.ends_at == 155
