"""Which tests `./dev test --changed` runs, and in what order."""

from __future__ import annotations

from functools import cache

from tests.changed import in_order
from tests.house.measures import Module, modules_below
from tests.house.repository import ROOT
from tests.support.today import turn


def chosen(*changed: str) -> list[str]:
    return [str(file.relative_to(ROOT)) for file in in_order(_modules(), changed)]


@cache
def _modules() -> list[Module]:
    return [*modules_below(ROOT / "src"), *modules_below(ROOT, "tests")]


@turn(2, of=4)
def test_the_tests_of_a_file_come_before_those_of_what_imports_it():
    found = chosen("src/tidegate/arrays.py")
    assert found[0] == "tests/unit/test_arrays.py"
    assert len(found) > 5


def test_a_test_that_was_changed_itself_comes_first():
    assert chosen("tests/unit/test_pace.py") == ["tests/unit/test_pace.py"]


def test_a_change_that_no_test_imports_chooses_none():
    assert chosen("README.md", "src/tidegate/spark/java/TidegateLook.java") == []
