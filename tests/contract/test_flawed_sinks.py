"""The contract suite proves itself: every planted flaw fails exactly the test that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import flawed
from tests.support.today import turn
from tidegate.testing.contract import SinkContract

Flawed = type[flawed.FlawedFiles] | type[flawed.FlawedTable]

FLAWS: list[Flawed] = [*flawed.FlawedFiles.__subclasses__(), *flawed.FlawedTable.__subclasses__()]
TESTS = sorted(name for name in dir(SinkContract) if name.startswith("test_"))


def failing(contract: type[SinkContract], folder: Path) -> list[str]:
    return [test for test in TESTS if fails(contract, test, folder / test)]


def fails(contract: type[SinkContract], test: str, folder: Path) -> bool:
    folder.mkdir()
    suite = contract()
    suite.set_up(folder)
    try:
        getattr(suite, test)()
    except Exception:  # noqa: BLE001  a flawed sink may break a test in any way
        return True
    return False


@turn(0, of=4)
@pytest.mark.parametrize("sink", FLAWS, ids=lambda sink: sink.__name__)
def test_a_flaw_fails_the_test_that_names_it_and_no_other(sink: Flawed, tmp_path: Path) -> None:
    assert failing(flawed.contract_of(sink), tmp_path) == [sink.names]


def test_every_test_is_named_by_a_flaw() -> None:
    unproven = set(TESTS) - {flaw.names for flaw in FLAWS}
    assert unproven == {
        # Whatever a sink does wrong there fails other tests, too.
        "test_the_target_has_transactions_or_simulates_them",
        "test_commit_is_idempotent",
    }
