"""The small world: every case that the tests run must end well, and give the same each time."""

from __future__ import annotations

import pytest

from tests.support.today import today
from tests.world.campaign import parts, run_part
from tests.world.cases import Case, Hit, parse_case
from tests.world.configurations import CONFIGURATIONS
from tests.world.enumeration import Family
from tests.world.hostile import Hostile, hostile_cases, run_hostile
from tests.world.world import points_of, run_case

SEED = today()
"""Which of the cases are run: others each day, the same for a seed that is given. `./dev world --all` runs all."""


@pytest.mark.parametrize("family", Family, ids=lambda family: family.value)
def test_no_run_is_bad(family: Family, capsys: pytest.CaptureFixture[str]) -> None:
    runs, bad = 0, list[tuple[str, str]]()
    for part in parts(everything=False, seed=SEED):
        if part.family is family:
            result = run_part(part)
            runs, bad = runs + result.runs, bad + result.bad
    with capsys.disabled():
        print(f" {runs} runs, {len(bad)} bad ", end="")
    assert runs > 0
    assert bad == [], f"TIDEGATE_SEED={SEED}"


@pytest.mark.parametrize("hostile", hostile_cases(), ids=lambda hostile: hostile.name)
def test_what_cannot_be_decided_is_refused(hostile: Hostile) -> None:
    assert run_hostile(hostile) == []


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_run_without_strikes_ends_well(name: str) -> None:
    assert run_case(Case(name)) == []


def test_the_same_case_gives_the_same_trace() -> None:
    case = parse_case("stateful-sk:timeout@100+power.drop@40")
    first, second = list[str](), list[str]()
    assert run_case(case, first) == run_case(case, second) == []
    assert first == second


def test_a_key_names_its_case() -> None:
    case = Case("stateful-sk").then(Hit.PAUSE, 3).then(Hit.RUSH, 40)
    assert case.key == "stateful-sk:pause@3+rush@40"
    assert parse_case(case.key) == case


def test_every_kind_of_strike_is_met_somewhere() -> None:
    """RUSH, TURNS and DELIVER follow others; REORDER needs two epochs that are committed and not finished."""
    met = {hit for name in CONFIGURATIONS for point in points_of(Case(name)) for hit in point.hits}
    assert met | {Hit.RUSH, Hit.TURNS, Hit.DELIVER} == set(Hit)
