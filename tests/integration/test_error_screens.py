"""What a user sees of a mistake, from the first line on the screen to the last: one error, and nothing else.

Most programs share a process, and so a JVM, one after the other (`screens_program.py`). What a process itself has to do
with is seen in processes of their own: before there is a session, and under `tidegate run`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration.screens import DAMAGED, IN_ONE_SESSION, WITHOUT_JVM, Screen
from tests.support.screen import TIDEGATE, screen_of

_DRIVER = Path(__file__).with_name("screens_program.py")
_PLACE = re.compile(r"^\$ (\w+)/(\d)\.py\n", re.MULTILINE)
_STATE_FILE = re.compile(r"(?<=/state/0/)\d+/1_[0-9a-f-]+\.changelog")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("screens")


@pytest.fixture(scope="module")
def shown(folder: Path) -> Mapping[str, str]:
    """What each program has shown, by its folder and name."""
    kinds = {**IN_ONE_SESSION, "damaged": Screen(DAMAGED.programs[:1], "")}
    for name, screen in kinds.items():
        screen.write(folder / name)
    _, text = screen_of([sys.executable, str(_DRIVER), *kinds], folder)
    before, *parts = _PLACE.split(text)
    assert before == ""
    places = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {f"{name}/{number}": said.replace(f"~/{name}/", "~/") for name, number, said in places}


@pytest.mark.more
@pytest.mark.parametrize("name", IN_ONE_SESSION)
def test_an_error_is_all_that_its_program_shows(shown: Mapping[str, str], name: str):
    screen = IN_ONE_SESSION[name]
    assert shown[f"{name}/{len(screen.programs)}"] == screen.shown


@pytest.mark.more
def test_advice_is_given_behind_the_first_epoch_that_is_done(shown: Mapping[str, str]):
    assert "aggregation (word) (sum(n)) has no uid" in shown["changed/1"]
    assert len(shown["changed/1"].splitlines()) == 1


@pytest.mark.parametrize("name", WITHOUT_JVM)
def test_an_error_without_a_session_is_all_that_its_program_shows(folder: Path, name: str):
    screen = WITHOUT_JVM[name]
    screen.write(folder / name)
    assert screen_of([sys.executable, "1.py"], folder / name) == (1, screen.shown)


@pytest.mark.more
def test_tidegate_run_shows_that_it_starts_and_the_error(folder: Path, shown: Mapping[str, str]):
    assert list(shown)[-1] == "damaged/1"
    place = folder / "damaged"
    DAMAGED.write(place)
    code, text = screen_of([TIDEGATE, "run", "2.py"], place)
    assert (code, _STATE_FILE.sub("FILE", text)) == (4, DAMAGED.shown)
