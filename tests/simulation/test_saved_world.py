"""Savepoints, generations and rewind in the small world: whatever dies when, nothing is lost, repeated or left over.

In a process of its own: the changes of a folder are seen by a hook that an interpreter keeps.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.saved.campaign import Family
from tests.simulation.saved.planted import PLANTED, Planted
from tests.support.today import sampled

ROOT = Path(__file__).parents[2]
_STRIDES = {Family.SINGLE: 7, Family.MOMENTS: 1, Family.PAIRS: 7, Family.SEEDS: 1}


def test_no_story_is_bad_whatever_dies_when() -> None:
    runs = saved_world("--stride", "1199", "--seeds", "24000")
    assert runs.count(" 0 bad ") == len(Family)


@pytest.mark.more
@pytest.mark.parametrize("family", Family, ids=lambda family: family.value)
def test_no_story_of_many_is_bad(family: Family) -> None:
    assert " 0 bad " in saved_world("--family", family.value, "--stride", str(_STRIDES[family]))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.rule)
def test_the_rule_that_is_to_be_broken_is_still_there(planted: Planted) -> None:
    with planted.plant():
        pass


@pytest.mark.parametrize("third", sampled([pytest.param(part, id=f"part {part + 1} of 3") for part in range(3)]))
def test_a_broken_rule_of_savepoints_generations_or_rewind_is_caught(third: int) -> None:
    found = saved_world("--planted", "--stride", "3", "--first", str(third))
    assert "caught after" in found
    assert "NOT CAUGHT" not in found


def saved_world(*arguments: str) -> str:
    """What a run of it prints; fails when a run of it is bad."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.saved", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
