"""Checkpoints over graphs of queries: each that is complete is a cut, and nothing is held for ever."""

from __future__ import annotations

import pytest

from tests.simulation.graphs.planted import PLANTED_GRAPH_BUGS, PlantedGraphBug, first_bad
from tests.simulation.graphs.world import World
from tests.simulation.seeds import gives_the_same_every_time, no_seed_is_bad
from tests.support.today import today

SEEDS, KNOWN = 50, 6000
FIRST = today() * SEEDS % KNOWN
FIRES = (
    "complete: aligned",
    "complete: unaligned",
    "complete: at-least-once",
    "a checkpoint has overtaken rows after a while",
    "a checkpoint has rows in flight",
    "a checkpoint repeats rows",
    "a checkpoint has ended: Canceled",
    "a checkpoint was refused: the job is ending",
    "a driver has died",
    "a driver was paused beside its successor",
    "a query has failed",
    "a query has ended",
    "a paused finisher has written late",
    "rows were removed",
    "a checkpoint was restored",
    "a checkpoint with rows in flight was restored",
)
SEARCHED = 400
"""So many seeds from a bug's known one on, should a change of the protocol have moved it."""


def test_every_complete_checkpoint_is_a_cut_and_rows_flow_on() -> None:
    no_seed_is_bad(World, range(FIRST, FIRST + SEEDS), FIRES)


@pytest.mark.more
def test_more_seeds() -> None:
    no_seed_is_bad(World, range(1500), FIRES)


def test_a_seed_gives_the_same_every_time() -> None:
    gives_the_same_every_time(World, 3)


@pytest.mark.parametrize("bug", PLANTED_GRAPH_BUGS, ids=lambda bug: bug.rule)
def test_a_broken_rule_is_seen(bug: PlantedGraphBug) -> None:
    assert first_bad(bug, first=bug.near, seeds=SEARCHED) is not None, f"not seen: {bug.rule}"
