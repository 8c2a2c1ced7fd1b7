"""The lease of terms in a world of slow requests, other clocks and processes that stand still."""

from __future__ import annotations

import pytest

from tests.simulation.lease_world import World
from tests.simulation.planted_leases import PLANTED_LEASES, PlantedLease, try_planted
from tests.simulation.seeds import gives_the_same_every_time, no_seed_is_bad
from tests.support.today import today

SEEDS, KNOWN = 40, 300
FIRST = today() * SEEDS % KNOWN
FIRES = ("lost", "killed", "suspended", "released", "landed late", "answer lost", "saw a newer term", "renewed", "took")
SEARCHED = 60
"""At least so many seeds from a bug's known one on."""


def test_no_two_processes_act_under_a_lease() -> None:
    no_seed_is_bad(World, range(FIRST, FIRST + SEEDS), FIRES)


def test_a_seed_gives_the_same_every_time() -> None:
    gives_the_same_every_time(World, 3)


@pytest.mark.parametrize("bug", PLANTED_LEASES, ids=lambda bug: bug.rule)
def test_a_broken_rule_is_seen(bug: PlantedLease) -> None:
    assert try_planted(bug, first=bug.near, seeds=SEARCHED), f"not seen: {bug.rule}"
