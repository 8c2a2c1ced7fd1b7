"""Starts, fresh starts and forgets of a job off a disk that are paused and killed anywhere: nothing counts twice."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.openers_world import World
from tests.simulation.planted_openers import PLANTED_OPENERS, PlantedOpener, try_planted
from tests.support.today import today

SEEDS, KNOWN = 60, 3000
FIRST = today() * SEEDS % KNOWN
FIRES = ("continued", "forgotten", "killed", "start: GENERATION_SEALED", "start: well", "fresh: well", "forget: well")
SEARCHED = 12
"""At least so many seeds from a bug's known one on."""


def test_no_job_begins_twice_and_no_epoch_is_shown_twice() -> None:
    figures: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + SEEDS):
        world = World(seed)
        assert world.run() == [], seed
        figures += world.figures
    assert [each for each in FIRES if not figures[each]] == []


def test_a_seed_gives_the_same_every_time() -> None:
    first, again = World(1), World(1)
    assert first.run() == again.run()
    assert first.figures == again.figures != Counter()


@pytest.mark.parametrize("bug", PLANTED_OPENERS, ids=lambda bug: bug.rule)
def test_a_broken_rule_is_seen(bug: PlantedOpener) -> None:
    assert try_planted(bug, first=bug.near, seeds=SEARCHED), f"not seen: {bug.rule}"
