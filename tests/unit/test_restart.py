"""The restart strategies: Flink's rules and defaults, with the failures as plain numbers."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.settings.reading import read_settings
from tidegate.supervise.restart import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    Restarted,
    RestartPolicy,
    strategy_of,
)

MIDDLE = 0.5
"""The random number that adds and takes away nothing."""

FLINK = ExponentialDelay(initial=1.0, maximum=60.0, multiplier=1.5, reset=3600.0, jitter=0.1)


def pauses(strategy: RestartPolicy, times: list[float], chance: float = MIDDLE) -> list[float | None]:
    """What follows each of some failures; after a None there is no other."""
    past: list[Restarted] = []
    found: list[float | None] = []
    for at in times:
        pause = strategy.pause_after(past, at, chance)
        found.append(pause)
        if pause is None:
            break
        past.append(Restarted(at=at, pause=pause))
    return found


def test_the_defaults_are_those_of_flink():
    def of(*overrides: str) -> RestartPolicy:
        return strategy_of(read_settings({}, {}, overrides))

    assert of() == FLINK
    assert of("restart.strategy=none") == NoRestart()
    assert of("restart.strategy=fixed-delay") == FixedDelay(attempts=1, delay=1.0)
    assert of("restart.strategy=failure-rate") == FailureRate(max_failures=1, interval=60.0, delay=1.0)
    assert of("restart-strategy.type=exponential-delay", "restart.exponential.attempts=3") == ExponentialDelay(
        initial=1.0, maximum=60.0, multiplier=1.5, reset=3600.0, jitter=0.1, attempts=3
    )


def test_none_ends_at_the_first_failure():
    assert pauses(NoRestart(), [0.0]) == [None]


def test_fixed_delay_counts_all_restarts_however_long_ago():
    assert pauses(FixedDelay(attempts=2, delay=3.0), [0.0, 1e6, 2e6]) == [3.0, 3.0, None]
    assert pauses(FixedDelay(attempts=0, delay=3.0), [0.0]) == [None]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0.0, 30.0, 59.0], [1.0, 1.0, None]),
        ([0.0, 30.0, 60.0], [1.0, 1.0, None]),
        ([0.0, 30.0, 61.0, 91.0, 92.0], [1.0, 1.0, 1.0, 1.0, None]),
    ],
)
def test_the_failure_rate_counts_within_any_interval(times: list[float], expected: list[float | None]):
    assert pauses(FailureRate(max_failures=2, interval=60.0, delay=1.0), times) == expected


def test_exponential_pauses_grow_up_to_the_maximum():
    """Failures that each come a second after the restart."""
    strategy = ExponentialDelay(initial=1.0, maximum=5.0, multiplier=2.0, reset=100.0, jitter=0.0)
    assert pauses(strategy, [0.0, 2.0, 5.0, 10.0, 16.0]) == pytest.approx([1.0, 2.0, 4.0, 5.0, 5.0])


def test_a_quiet_time_begins_the_pauses_anew():
    """What counts is the time since the restart, not since the failure."""
    strategy = ExponentialDelay(initial=10.0, maximum=1000.0, multiplier=2.0, reset=100.0, jitter=0.0)
    assert pauses(strategy, [0.0, 109.0]) == pytest.approx([10.0, 20.0])
    assert pauses(strategy, [0.0, 110.0]) == pytest.approx([10.0, 10.0])
    assert pauses(strategy, [0.0, 109.0, 229.0, 240.0]) == pytest.approx([10.0, 20.0, 10.0, 20.0])


def test_attempts_are_counted_since_the_pause_was_the_first():
    strategy = ExponentialDelay(initial=1.0, maximum=9.0, multiplier=1.0, reset=50.0, jitter=0.0, attempts=2)
    assert pauses(strategy, [0.0, 2.0, 4.0]) == [1.0, 1.0, None]
    assert pauses(strategy, [0.0, 2.0, 60.0, 62.0, 64.0]) == [1.0, 1.0, 1.0, 1.0, None]


def test_queries_that_fail_during_the_pause_are_one_failure():
    strategy = ExponentialDelay(initial=8.0, maximum=99.0, multiplier=2.0, reset=100.0, jitter=0.0, attempts=2)
    assert pauses(strategy, [0.0, 0.0, 2.0, 9.0]) == [8.0, 8.0, 6.0, 16.0]


def test_jitter_is_a_part_of_the_pause_to_either_side():
    strategy = ExponentialDelay(initial=10.0, maximum=100.0, multiplier=2.0, reset=100.0, jitter=0.1)
    assert pauses(strategy, [0.0], chance=0.0) == pytest.approx([9.0])
    assert pauses(strategy, [0.0], chance=1.0) == pytest.approx([11.0])


positive = st.floats(min_value=0.001, max_value=1e6)
gaps = st.lists(st.floats(min_value=0.0, max_value=1e5), min_size=1, max_size=50)


@example(gaps=[65536.0, 0.0], chance=0.0, initial=1.0, maximum=0.001, multiplier=1.0, jitter=0.0)
@given(gaps, st.floats(0, 1), positive, positive, st.floats(1.0, 100.0), st.floats(0, 1))
def test_no_pause_leaves_its_bounds(
    gaps: list[float], chance: float, initial: float, maximum: float, multiplier: float, jitter: float
):
    strategy = ExponentialDelay(initial=initial, maximum=maximum, multiplier=multiplier, reset=3600.0, jitter=jitter)
    times = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    for pause in pauses(strategy, times, chance):
        assert pause is not None
        assert 0.0 <= pause <= maximum * (1 + 1e-9)


@given(st.integers(0, 10_000))
def test_months_of_failures_do_not_overflow(count: int):
    past = [Restarted(at=index * 61.0, pause=60.0) for index in range(count)]
    pause = FLINK.pause_after(past, count * 61.0, MIDDLE)
    assert pause is not None
    assert 1.0 <= pause <= 60.0


@given(gaps, st.integers(1, 5), st.floats(min_value=1.0, max_value=1e4))
def test_the_failure_rate_holds_for_every_interval(gaps: list[float], most: int, interval: float):
    """Of the failures that were followed by a restart, no interval has more than the rate allows."""
    strategy = FailureRate(max_failures=most, interval=interval, delay=0.0)
    times = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    past = times[: len([pause for pause in pauses(strategy, times) if pause is not None])]
    for first in past:
        assert len([at for at in past if at >= first and at - first <= interval]) <= most
