"""What the benchmarks of scale make of what they see; no Spark."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from bench import scale_queries, scale_state
from bench.__main__ import of_suite
from bench.child import MEASURES, ON_REQUEST, SUITES
from bench.footprint import cpu_seconds_of_session
from bench.pace import Pace, pace_of
from bench.scale_kafka import memory
from bench.scale_snapshot import Upload, Uploads, longest, parted, spans_of
from bench.scale_state import CHANGED, Times, stretches


def test_each_stretch_has_its_epochs_behind_a_warm_up_and_behind_the_one_before() -> None:
    plan = stretches(40)
    assert [changed for changed, _, _ in plan] == list(CHANGED)
    assert [behind - first for _, first, behind in plan] == [40, 40, 40]
    assert all(first > behind for (_, _, behind), (_, first, _) in pairwise(plan))


def test_an_epoch_may_take_longer_with_more_changes_and_not_with_more_state() -> None:
    few = Times(1.0, {10: 100.0, 100: 110.0, 1000: 200.0})
    many = Times(20.0, {10: 105.0, 100: 130.0, 1000: 260.0})
    found = {figure.name: figure for figure in scale_state.figures("s", "rocksdb", (100, 10_000), [(few, many)])}
    assert {name: (figure.value, figure.is_met) for name, figure in found.items()} == {
        "s-10": (1.05, True),
        "s-1000": (1.3, False),
        "s-both": (2.36, True),
    }
    assert found["s-both"].medians()["baseline epoch ms"] == 110.0
    assert found["s-both"].medians()["tidegate s until all keys are there"] == 20.0


def touch(file: Path, size: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)


def test_an_upload_lasts_from_its_first_new_file_to_its_archive_in_each_partition(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    uploads.look(1.0)
    touch(tmp_path / "0" / "3.changelog", 99)
    uploads.look(2.0)
    touch(tmp_path / "0" / "SSTs" / "a.sst", 10)
    uploads.look(3.0)
    touch(tmp_path / "0" / "SSTs" / "b.sst", 20)
    touch(tmp_path / "1" / "4_x.zip", 5)
    uploads.look(4.0)
    touch(tmp_path / "0" / "4_x.zip", 1)
    uploads.look(5.0)
    uploads.look(6.0)
    assert uploads.done == [Upload(4.0, 4.0, 5), Upload(3.0, 5.0, 31)]


def test_an_epoch_is_beside_an_upload_if_any_part_of_it_is() -> None:
    spans = spans_of({0: 0.0, 1: 1.0, 2: 2.0, 3: 3.5, 4: 4.0, 7: 9.0}, 1)
    assert spans == [(1.0, 2.0), (2.0, 3.5), (3.5, 4.0)]
    assert parted(spans, [Upload(3.4, 3.6, 1)]) == ([1.5, 0.5], [1.0])
    assert parted(spans, []) == ([], [1.0, 1.5, 0.5])


def test_the_longest_epoch_is_compared_with_the_longest_of_the_same_number_of_epochs() -> None:
    figure = longest("n", "beside it", [0.1, 0.24], [0.1, 0.2, 0.1, 0.1, 0.3, 0.1, 9.0])
    assert (figure.value, figure.is_met) == (1.2, True)
    assert figure.medians()["baseline longest ms"] == 200.0
    assert longest("n", "all the time", [0.5] * 9, [0.1, 0.2]).value == 2.5


@pytest.mark.parametrize(("beside", "alone"), [([], [0.1]), ([0.1], [])])
def test_without_an_upload_or_without_a_pause_there_is_nothing_to_compare(
    beside: list[float], alone: list[float]
) -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        longest("n", "what", beside, alone)


def test_the_pace_of_a_job_is_that_of_each_query_and_its_cost_that_of_all_epochs() -> None:
    assert pace_of({"a": 10, "b": 20}, {"a": 15, "b": 25}, 10.0, 4.0) == Pace(2000.0, 400.0)
    with pytest.raises(ValueError, match="no epoch"):
        pace_of({"a": 10, "b": 20}, {"a": 15, "b": 20}, 10.0, 4.0)


def test_twenty_queries_are_compared_with_one() -> None:
    time, cpu = scale_queries.figures([Pace(100.0, 150.0)], [Pace(1500.0, 120.0)])
    assert (time.value, cpu.value) == (15.0, 0.8)
    assert cpu.medians() == {"baseline CPU ms an epoch": 150.0, "tidegate CPU ms an epoch": 120.0}


def test_all_workers_count_also_one_that_came_later() -> None:
    grown = memory([100.0, 100.0], [100.0, 100.0, 40.0])
    assert (grown.value, grown.is_met) == (20.0, False)
    with pytest.raises(ValueError, match="0 Python workers"):
        memory([], [1.0])


def test_the_cpu_time_of_a_session_has_that_of_this_process() -> None:
    before = cpu_seconds_of_session()
    assert before > 0
    while cpu_seconds_of_session() <= before:
        pass


def test_what_takes_too_long_for_every_run_is_measured_by_its_name_only() -> None:
    assert set(MEASURES) >= ON_REQUEST
    assert set(SUITES["scale"]) - set(of_suite("scale")) == ON_REQUEST
    assert of_suite("core") == list(SUITES["core"])
