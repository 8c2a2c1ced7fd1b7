"""Starts, fresh starts, restores and forgets of one job off a disk that are paused and killed: nothing counts twice."""

from __future__ import annotations

import pytest

from tests.simulation.openers_world import World
from tests.simulation.planted_openers import PLANTED_OPENERS, PlantedOpener, try_planted
from tests.simulation.restores_world import WorldWithRestores
from tests.simulation.seeds import gives_the_same_every_time, no_seed_is_bad
from tests.support.today import today

SEEDS, KNOWN = 60, 3000
FIRST = today() * SEEDS % KNOWN
FIRES = ("continued", "forgotten", "killed", "start: GENERATION_SEALED", "start: well", "fresh: well", "forget: well")
SEARCHED = 12
"""At least so many seeds from a bug's known one on."""


def test_no_job_begins_twice_and_no_epoch_is_shown_twice() -> None:
    no_seed_is_bad(World, range(FIRST, FIRST + SEEDS), FIRES)


def test_beside_restores_no_job_begins_twice_and_no_epoch_is_shown_twice() -> None:
    no_seed_is_bad(WorldWithRestores, range(FIRST, FIRST + SEEDS), ("restored", "restore: well", *FIRES[:-1]))


@pytest.mark.parametrize("world_of", [World, WorldWithRestores])
def test_a_seed_gives_the_same_every_time(world_of: type[World]) -> None:
    gives_the_same_every_time(world_of, 1)


@pytest.mark.parametrize("bug", PLANTED_OPENERS, ids=lambda bug: bug.rule)
def test_a_broken_rule_is_seen(bug: PlantedOpener) -> None:
    assert try_planted(bug, first=bug.near, seeds=SEARCHED), f"not seen: {bug.rule}"
