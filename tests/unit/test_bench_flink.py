"""The comparison with PyFlink: what its figures are made of, and that it is left out where PyFlink is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import flink
from bench.__main__ import possible
from bench.figures import Figure
from bench.kafka_flink import WITH_START, WITHOUT_START, Run, figure_of

SLOW, QUICK = [Run(10.0, 30.0), Run(11.0, 33.0), Run(9.0, 27.0)], [Run(12.0, 22.0), Run(12.0, 23.0), Run(12.0, 21.0)]


def compared(theirs: list[Run], ours: list[Run], quantity: str = WITHOUT_START) -> Figure:
    return figure_of("name", "what", theirs, ours, goal=0.85, quantity=quantity)


def test_a_start_up_is_taken_off_each_run_and_the_medians_are_divided() -> None:
    figure = compared(SLOW, QUICK)
    assert figure.value == 0.5
    assert figure.medians() == {
        "baseline s": 20.0,
        "baseline s with its start": 30.0,
        "tidegate s": 10.0,
        "tidegate s with its start": 22.0,
    }


def test_a_quick_run_is_compared_with_its_start() -> None:
    assert compared(SLOW, QUICK, WITH_START).value == 0.73


@pytest.mark.parametrize(("theirs", "ours"), [([Run(30.0, 25.0)], QUICK), (SLOW, [Run(30.0, 30.0)])])
def test_no_goal_is_met_by_a_start_up_that_took_longer_than_all_of_it(theirs: list[Run], ours: list[Run]) -> None:
    with pytest.raises(ValueError, match="the starts alone took longer"):
        compared(theirs, ours)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    monkeypatch.setenv("TIDEGATE_BENCH_FLINK", str(tmp_path))

    def installed(version: str) -> Path:
        packages = tmp_path / "lib" / "python3.11" / "site-packages"
        (packages / f"apache_flink-{version}.dist-info").mkdir(parents=True)
        (packages / "apache_flink_libraries-9.9.9.dist-info").mkdir()
        return tmp_path

    return installed


def test_with_pyflink_all_that_was_asked_for_is_run(install: Callable[[str], Path]) -> None:
    place = install("2.2.1")
    assert flink.installed_version() == "2.2.1"
    assert flink.python() == place / "bin" / "python"
    assert possible(["kafka-map", "kafka-flink-map"]) == ["kafka-map", "kafka-flink-map"]


def test_without_pyflink_what_needs_it_is_left_out_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEGATE_BENCH_FLINK", str(tmp_path))
    assert possible(["kafka-map", "kafka-flink-map", "kafka-flink-count"]) == ["kafka-map"]
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in told] == ["kafka-flink-map", "kafka-flink-count"]
    assert all(f"{tmp_path}/bin/pip install apache-flink==" in line for line in told)
