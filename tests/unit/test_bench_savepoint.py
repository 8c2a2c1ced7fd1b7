"""What the benchmarks of savepoints make of what they see; no Spark."""

from __future__ import annotations

import os
from pathlib import Path

from bench.child import MEASURES, SUITES
from bench.growth import peak_growth
from bench.savepoint_copy import seconds_of_files
from bench.savepoint_epochs import figures, periods_ms


def test_only_epochs_that_lie_between_two_moments_as_a_whole_count() -> None:
    begun = {4: 9.0, 5: 10.0, 6: 10.5, 7: 11.5, 8: 12.5}
    assert periods_ms(begun, 10.0, 12.0) == [500.0, 1000.0]
    assert periods_ms(begun, 10.1, 20.0) == [1000.0, 1000.0], "nobody knows when the last one ended"
    assert periods_ms(begun, 30.0, 40.0) == []


def test_an_epoch_that_waits_is_in_the_figure_and_not_hidden_by_the_others() -> None:
    found = {"baseline": [[100.0] * 10], "tidegate": [[100.0] * 9 + [500.0]]}
    slower, longest = figures(found)
    assert (slower.value, slower.is_met) == (40.0, False)
    assert (longest.value, longest.medians()) == (500.0, {"baseline longest ms": 100.0, "tidegate longest ms": 500.0})


def test_the_files_of_a_restore_take_until_its_ledger_is_begun(tmp_path: Path) -> None:
    for name, at in {
        "spark/commits/3": 101.0,
        "spark/state/0/0/4.zip": 103.0,
        "spark/offsets/4": 120.0,
        "ledger/runs/7": 104.5,
        "ledger/runs/8": 110.0,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (at, at))
    assert seconds_of_files(tmp_path) == 3.5


def test_memory_is_taken_at_its_peak_and_not_at_the_end() -> None:
    def brief() -> int:
        return len(b"\1" * size)

    size = 48 << 20
    given, grown = peak_growth(brief)
    assert given == size
    assert grown > 40
    again, not_any_more = peak_growth(lambda: 7)
    assert (again, not_any_more < 20) == (7, True)


def test_the_suite_has_all_three() -> None:
    assert list(SUITES["savepoint"]) == ["savepoint-copy", "savepoint-canonical", "savepoint-epochs"]
    assert set(SUITES["savepoint"]) <= set(MEASURES)
