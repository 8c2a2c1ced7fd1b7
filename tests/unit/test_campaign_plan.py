"""The campaign's plan: seeded, complete when it is large enough, and with every rare situation when it is not."""

from __future__ import annotations

import pytest

from tests.campaign.drivers import Target
from tests.campaign.footprint import Phase
from tests.campaign.schedule import At, Kill, Stall, StoreStrike, kills_in, plan, plan_common, plan_remote, plan_store
from tests.campaign.situations import (
    COMMON_PLACES,
    OF_OTHER_JOBS,
    Situation,
    actions_at,
    exact_places,
    phase_of,
    remote_places,
    situation_of,
    store_places,
)
from tests.campaign.stores.named import STORES
from tidegate.core.failpoints import AFTER_SOMETHING, POINTS, RESTORE_POINTS


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan(7, 100) == plan(7, 100) != plan(8, 100)


@pytest.mark.parametrize("kills", [20, 60, 300])
def test_it_has_as_many_kills_as_were_asked_for(kills: int) -> None:
    assert kills_in(plan(1, kills)) == kills_in(plan_common(1, kills)) == kills_in(plan_remote(1, kills)) == kills


def test_a_large_plan_has_every_action_at_every_place() -> None:
    struck = {(step.place, step.action) for step in plan(3, 60) if isinstance(step, At)}
    assert struck == {(place, action) for place in exact_places() for action in actions_at(place)}


def test_a_small_plan_has_every_rare_situation() -> None:
    rare = {situation_of(step.place) for step in plan(3, 20) if isinstance(step, At)}
    assert set(Situation) - rare <= {Situation.EPOCH, Situation.LATE, Situation.RESTART}


def test_a_plan_for_another_storage_passes_what_can_be_passed_there_and_lets_drivers_be_replaced() -> None:
    steps = plan_remote(3, 60)
    assert {step.place for step in steps if isinstance(step, At)} >= set(remote_places())
    assert {step.jvm_too for step in steps if isinstance(step, Stall)} == {True, False}
    on_cluster = plan_remote(3, 60, cluster=True)
    assert {step.place for step in on_cluster if isinstance(step, At)} >= set(remote_places(cluster=True))
    assert Target.EXECUTOR in {step.target for step in on_cluster if isinstance(step, Kill)}
    small = {situation_of(step.place) for step in plan_remote(3, 12) if isinstance(step, At)}
    assert Situation.LOSES in small
    assert Situation.DAMAGED not in small


@pytest.mark.parametrize("name", STORES)
def test_a_plan_for_a_store_strikes_the_store_itself_and_only_places_that_it_passes(name: str) -> None:
    places = store_places(STORES[name].points)
    steps = plan_store(3, 60, places)
    assert kills_in(steps) == 60
    assert sum(isinstance(step, StoreStrike) for step in steps) >= 7
    assert {step.place for step in steps if isinstance(step, At)} <= set(places)
    assert ("recover.begun.after" in places) == (name in {"redis", "upsert"})


def test_every_registered_place_belongs_to_some_level_and_has_a_phase() -> None:
    """A campaign starts no job from a savepoint and changes no program: a restore's places are struck in
    tests/crash/test_restore.py, those of accepted operators in tests/unit/test_generation_start.py."""
    exact = set(exact_places())
    passed_by_none = {f"{point}.{when}" for point in OF_OTHER_JOBS for when in ("before", "after")}
    assert POINTS - exact == {*passed_by_none, *RESTORE_POINTS}
    assert {phase_of(place) for place in exact} == set(Phase)
    assert set(COMMON_PLACES) < exact
    assert all(action.value != "acklost" or place in AFTER_SOMETHING for place in exact for action in actions_at(place))
