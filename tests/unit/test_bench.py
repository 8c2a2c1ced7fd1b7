"""The benchmarks' bookkeeping: goals, the kept results and the table drawn from them."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest

from bench import __main__ as bench
from bench import machine, report
from bench.figures import Better, Figure, Machine, Results
from bench.kafka_epochs import quantile_of_each, visible_figures
from bench.machine import this_machine

MACHINE = Machine(system="Linux", cpu="a CPU", cores=2, memory_gib=23.5, file_system="ext4", versions={"java": "17"})


def figure(value: float, better: Better = Better.LOWER, goal: float | None = 60.0) -> Figure:
    samples = {"baseline epoch ms": [70.0, 90.0, 80.0], "tidegate epoch ms": [130.0]}
    return Figure(name="epoch", what="an epoch", value=value, unit="ms", better=better, goal=goal, samples=samples)


def keep(folder: Path, measured: str, value: float, rounds: int = 3) -> None:
    kept = Results(measured=measured, quick=False, rounds=rounds, machine=MACHINE, figures=(figure(value),))
    (folder / f"core-{measured}.json").write_bytes(msgspec.json.encode(kept))


@pytest.mark.parametrize(
    ("value", "better", "goal", "is_met"),
    [
        (59.9, Better.LOWER, 60.0, True),
        (60.1, Better.LOWER, 60.0, False),
        (0.91, Better.HIGHER, 0.9, True),
        (0.89, Better.HIGHER, 0.9, False),
        (1.0, Better.LOWER, None, None),
    ],
)
def test_a_goal_is_met_on_its_own_side_only(value: float, better: Better, goal: float | None, is_met: bool | None):
    assert figure(value, better, goal).is_met is is_met


def test_the_table_shows_the_newest_results_with_the_medians_of_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    keep(tmp_path, "2026-01-02", 61.0)
    keep(tmp_path, "2026-01-01", 50.0)
    table = report.markdown_table("core")
    assert "| an epoch | 80 epoch ms | 130 epoch ms | 61 ms | <= 60 missed |" in table
    assert "2026-01-02; 2 cores (a CPU), 23.5 GiB, Linux, ext4; java 17." in table
    assert "50 ms" not in table


def test_without_results_the_document_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert "./dev bench core" in report.markdown_table("core")


def test_results_name_no_host_and_no_path(tmp_path: Path):
    machine = msgspec.json.encode(this_machine(tmp_path)).decode()
    assert platform.node() not in machine.split('"')
    assert str(tmp_path) not in machine
    assert this_machine(tmp_path).cores >= 1


def test_without_a_suite_one_table_shows_the_newest_results_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["bench"])
    keep(tmp_path, "2026-01-01", 50.0)
    keep(tmp_path, "2026-01-02", 61.0)
    keep(tmp_path, "2026-01-03", 50.0, rounds=1)
    (tmp_path / "core-2026-01-03.json").rename(tmp_path / "flink-2026-01-03.json")
    assert bench.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["suite", "figure", "baseline", "tidegate", "value", "goal", "load"]
    assert [line.split()[:2] for line in lines[1:3]] == [["core", "epoch"], ["flink", "epoch"]]
    assert "61 ms" in lines[1]
    assert "core: 2026-01-02, medians of 3 rounds; 2 cores (a CPU), 23.5 GiB, Linux, ext4; java 17" in lines
    assert "flink: 2026-01-03, one round; 2 cores (a CPU), 23.5 GiB, Linux, ext4; java 17" in lines


@pytest.mark.parametrize(("least", "ratio", "is_met"), [([0.1, 0.16, 0.3], 0.8, True), ([0.2, 0.2, 0.2], 1.0, False)])
def test_what_at_least_once_gains_stands_beside_the_seconds_of_exactly_once(
    least: list[float], ratio: float, is_met: bool
) -> None:
    exact, gained = visible_figures(0.0, 99, 0.25, [0.2, 0.3, 0.1], least)
    assert (exact.name, exact.value, exact.is_met) == ("kafka-visible-0-p99", 0.2, True)
    assert (gained.name, gained.value, gained.is_met) == ("kafka-visible-0-p99-level", ratio, is_met)
    assert gained.medians() == {"baseline s": 0.2, "tidegate s": ratio / 5}


def test_a_percentile_is_taken_of_each_round() -> None:
    assert quantile_of_each([[float(n) for n in range(101)], [1.0] * 10], 50) == [50.0, 1.0]


def test_the_versions_of_servers_and_clients_are_kept_where_they_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = tmp_path / "redis-server"
    program.write_text('#!/bin/sh\necho "$0 $1: Redis server v=7.0.15 sha=00000000:0"\n')
    program.chmod(0o755)
    monkeypatch.setattr(machine, "server_programs", lambda: {"Redis": program, "MariaDB": tmp_path / "mariadbd"})
    monkeypatch.setattr(machine, "_CLIENTS", ("deltalake", "a-client-that-is-absent"))
    versions = this_machine(tmp_path).versions
    assert versions["Redis"] == "7.0.15"
    assert versions["deltalake"] == version("deltalake")
    assert {"MariaDB", "a-client-that-is-absent"} & versions.keys() == set()
