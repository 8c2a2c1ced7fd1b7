"""How many rows an epoch may have, by how long epochs took: simulated systems with a cost per epoch and one per row."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sources.pace import ROWS_AT_LEAST, Epoch, Pace


@dataclass(frozen=True)
class System:
    """Epochs take `fixed` seconds and `per_row` for each row, give or take `jitter`; the first ones `cold` more."""

    aim: float
    fixed: float
    per_row: float
    cold: Sequence[float] = ()
    jitter: float = 0.1
    seed: int = 0

    def run(self, epochs: int) -> list[Epoch]:
        """Epochs with a backlog that never ends."""
        chance, pace, found = random.Random(self.seed), Pace.first(self.aim), list[Epoch]()
        for _ in range(epochs):
            assert pace is not None
            found.append(self.epoch(pace.rows, chance, len(found)))
            pace = pace.after(found[-1])
        return found

    def epoch(self, rows: int, chance: random.Random, number: int) -> Epoch:
        extra = self.cold[number] if number < len(self.cold) else 0.0
        spread = chance.uniform(1 - self.jitter, 1 + self.jitter)
        return Epoch(rows, (self.fixed + self.per_row * rows) * spread + extra)

    def fitting(self) -> float:
        """How many rows take the aim."""
        return (self.aim - self.fixed) / self.per_row


@pytest.mark.parametrize("cold", [(), (9.0,), (9.0, 2.0, 0.5)], ids=["warm", "a cold epoch", "three cold epochs"])
def test_a_backlog_soon_gets_epochs_that_take_most_of_the_aim(cold: Sequence[float]):
    """The first epochs of a driver take many times as long as later ones: they must not count for long."""
    system = System(aim=1.0, fixed=0.25, per_row=4e-6, cold=cold)
    assert [each.rows > 0.5 * system.fitting() for each in system.run(20)[8:]] == [True] * 12


@given(
    st.floats(0.1, 60.0),
    st.floats(0.0, 0.45),
    st.floats(-6.0, -4.0),
    st.lists(st.floats(0.0, 20.0), max_size=3),
    st.integers(0, 1 << 16),
)
def test_epochs_fit_and_nearly_fill_an_aim_that_can_be_met(
    aim: float, fixed_share: float, magnitude: float, cold: list[float], seed: int
):
    system = System(aim, fixed_share * aim, 10**magnitude, cold, seed=seed)
    settled = system.run(160)[140:]
    if system.fitting() > 20 * ROWS_AT_LEAST:
        assert max(each.seconds for each in settled) <= 1.35 * aim
        assert min(each.seconds for each in settled) >= 0.6 * aim


@given(st.floats(1.0, 30.0), st.lists(st.floats(0.0, 20.0), max_size=3), st.integers(0, 1 << 16))
def test_an_aim_that_no_epoch_can_meet_does_not_hold_a_backlog_up(fixed: float, cold: list[float], seed: int):
    """An epoch without rows takes one to thirty aims: rows get about as much time again, and not more."""
    settled = System(1.0, fixed, fixed * 1e-5, cold, jitter=0.05, seed=seed).run(160)[60:]
    assert sum(each.rows for each in settled) / len(settled) > 15_000
    assert max(each.rows for each in settled) < 200_000


def warm(aim_seconds: float, seconds: float = 9.0) -> Pace:
    """After a full first epoch of so many seconds."""
    first = Pace.first(aim_seconds)
    assert first is not None
    return first.after(Epoch(first.rows, seconds))


def test_the_first_epoch_is_not_larger_for_a_long_interval():
    """A pipeline of a millisecond a row would take the better part of an hour for it."""
    assert (warm(60.0, 60.0).rows, warm(0.1).rows) == (100_000, 5_000)


def test_a_first_epoch_that_left_most_of_the_aim_lets_the_second_one_grow():
    """A first epoch takes longer than a later one with as many rows. So more rows fit for certain."""
    assert warm(5.0, seconds=1.8).rows == 250_000
    assert warm(5.0, seconds=0.1).rows == 400_000, "not without bounds"
    assert warm(5.0, seconds=9.0).rows == 100_000, "most of its time may have been the start"


def test_one_slow_epoch_with_few_rows_is_forgotten():
    slow = warm(1.0).after(Epoch(10, 9.0))
    assert (slow.rows, slow.fixed_seconds) == (50_000, 9.0), "what it could not help is not the rows' fault"
    assert slow.after(Epoch(12, 0.2)).fixed_seconds == 0.2
    assert slow.after(Epoch(50_000, 0.5)).fixed_seconds <= 0.5, "an epoch with many rows says so, too"


def test_an_epoch_that_was_not_full_and_fits_changes_nothing():
    assert warm(10.0).after(Epoch(1_000, 5.0)).rows == 100_000
    assert warm(10.0).after(Epoch(1_000, 50.0)).rows == 180, "it was too much all the same"


def test_a_clock_that_is_coarse_lets_rows_grow_by_steps():
    assert warm(1.0).after(Epoch(50_000, 0.0)).rows == 200_000


def test_without_an_aim_there_is_no_pace():
    assert Pace.first(0.0) is None
