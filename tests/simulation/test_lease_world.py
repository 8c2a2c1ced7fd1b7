"""The lease of terms in a world of slow requests, other clocks and processes that stand still."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.lease_world import World
from tests.simulation.planted_leases import PLANTED_LEASES, PlantedLease, try_planted
from tests.support.today import today

SEEDS, KNOWN = 40, 300
FIRST = today() * SEEDS % KNOWN
FIRES = ("lost", "killed", "suspended", "released", "landed late", "answer lost", "saw a newer term", "renewed", "took")
SEARCHED = 60
"""At least so many seeds from a bug's known one on."""


def test_no_two_processes_act_under_a_lease() -> None:
    figures: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + SEEDS):
        world = World(seed)
        assert world.run() == [], seed
        figures += world.figures
    assert [each for each in FIRES if not figures[each]] == []


def test_a_seed_gives_the_same_every_time() -> None:
    first, again = World(3), World(3)
    assert first.run() == again.run()
    assert first.figures == again.figures != Counter()


@pytest.mark.parametrize("bug", PLANTED_LEASES, ids=lambda bug: bug.rule)
def test_a_broken_rule_is_seen(bug: PlantedLease) -> None:
    assert try_planted(bug, first=bug.near, seeds=SEARCHED), f"not seen: {bug.rule}"
