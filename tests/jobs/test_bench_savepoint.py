"""The benchmarks of savepoints, with real Spark: a small state, whose figures say nothing of speed."""

from __future__ import annotations

import pytest

from bench.savepoint_job import QUICK_KEYS
from tests.jobs.test_bench_job import measured


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_savepoint_is_taken_restored_and_copied_and_has_every_key():
    figures = measured("--only", "savepoint-copy", suite="savepoint")
    assert figures["savepoint-keys"].value == QUICK_KEYS
    assert figures["savepoint-size"].value > 1
    for name in ("savepoint-take", "savepoint-restore"):
        assert figures[name].samples.keys() == {"baseline s", "tidegate s"}
        assert all(seconds > 0 for side in figures[name].samples.values() for seconds in side)
    assert figures["savepoint-start"].value > figures["savepoint-restore"].medians()["tidegate s"]
    assert {name for name in figures if "memory" in name} == {"savepoint-memory-taking", "savepoint-memory-restoring"}


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_canonical_one_is_measured_by_its_rows_and_by_what_is_in_them():
    figures = measured("--only", "savepoint-canonical", suite="savepoint")
    rows, size = figures["savepoint-canonical-take-rows"], figures["savepoint-canonical-take"]
    a_row = size.value * 1e6 / rows.value
    assert 200 <= a_row < 220, "192 characters of a key, a count, where a string ends, which are null"
    times = figures["savepoint-canonical-restore"].medians()
    assert 0 < times["tidegate s until the state is written"] < times["tidegate s until it is counted"]
    assert times["tidegate s until it is counted"] < times["tidegate s"]
    assert 0 < figures["savepoint-canonical-restore-cores"].value < 150
    assert {name for name in figures if "memory" in name} == {
        "savepoint-memory-taking-canonical",
        "savepoint-memory-restoring-canonical",
    }


@pytest.mark.more
@pytest.mark.timeout(600)
def test_epochs_are_timed_with_savepoints_and_without():
    figures = measured("--only", "savepoint-epochs", suite="savepoint")
    sides = figures["savepoint-epochs"].medians()
    assert sides.keys() == {"baseline epoch ms", "tidegate epoch ms"}
    assert min(sides.values()) > 5
    assert figures["savepoint-longest-epoch"].value >= sides["tidegate epoch ms"]
