"""The table of settings and the tests of their effects: what it names is there."""

from __future__ import annotations

import ast

from tests.house.effects import EFFECT_TESTS
from tests.house.repository import ROOT
from tidegate.settings.config import SETTINGS


def test_the_tests_that_show_effects_exist() -> None:
    named = {each for tests in EFFECT_TESTS.values() for each in tests}
    assert [each for each in sorted(named) if not exists(each)] == []


def test_every_setting_has_a_test_of_its_effect() -> None:
    assert {setting.name for setting in SETTINGS.values()} == set(EFFECT_TESTS)


def exists(test: str) -> bool:
    file, _, function = test.partition("::")
    path = ROOT / "tests" / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in ast.walk(tree))
