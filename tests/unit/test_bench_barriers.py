"""What the benchmarks of channels and barriers make of what they see; no Spark, no broker."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench import barrier_cost, barrier_modes, channel_throughput, report
from bench.barrier_modes import MODES, Taken
from bench.channel_throughput import Latency, latency_figure, speed
from bench.child import MEASURES, SUITES
from bench.figures import Figure, Machine, Results
from bench.hops import Step, begun, done, seconds_until_shown
from bench.pace import Pace
from tidegate.operate.done_checkpoint import DoneCheckpoint

MACHINE = Machine(system="Linux", cpu="a CPU", cores=2, memory_gib=23.5, file_system="ext4", versions={"java": "17"})


def epoch(number: int, at: float, rows: int = 10, took_ms: float = 500.0, query: str = "write") -> DoneCheckpoint:
    return DoneCheckpoint(query=query, epoch=number, run=1, at=at, duration_ms=took_ms, rows=rows)


def test_barriers_may_cost_five_percent_of_the_processor_and_thirty_milliseconds_an_epoch() -> None:
    none, taken = [Pace(100.0, 50.0), Pace(110.0, 52.0)], [Pace(120.0, 52.0), Pace(146.0, 53.0)]
    found = {each.name: (each.value, each.is_met) for each in barrier_cost.figures("aligned", none, taken, quick=False)}
    assert found == {"barrier-aligned-cpu": (1.029, True), "barrier-aligned-epoch": (28.0, True)}


def test_rows_are_shown_by_the_first_epoch_that_has_come_as_far_whatever_the_order_of_the_history() -> None:
    writer = [epoch(2, 3.0), epoch(1, 2.0), epoch(0, 1.0)]
    assert begun(writer) == [Step(0.5, 10), Step(1.5, 20), Step(2.5, 30)]
    reader = done([epoch(1, 3.5, rows=5), epoch(0, 2.5, rows=20)])
    assert seconds_until_shown(begun(writer), reader) == [2.0, 1.0], "the last ten are not shown as a whole"
    assert seconds_until_shown(begun(writer)[1:], done([])) == []


def test_the_latency_of_a_row_is_compared_with_the_time_between_the_begins_of_two_epochs_of_each_query() -> None:
    """The writer begins each second, the reader half a second later: its epochs take 0.1 s."""
    writer = [epoch(number, number + 0.25, took_ms=250.0) for number in range(12)]
    reader = [epoch(number, number + 0.6, took_ms=100.0, query="read") for number in range(12)]
    found = Latency.of(writer, reader, 2.0)
    assert (round(found.epochs, 6), round(found.rows, 6), round(found.slow_rows, 6)) == (2.0, 0.6, 0.6)
    figure = latency_figure(1.0, {"baseline": [found], "tidegate": [found]}, quick=False)
    assert (figure.name, figure.value, figure.is_met) == ("channel-latency-1", 0.3, True)
    assert figure.medians()["tidegate ms of both epochs"] == 2000.0


@pytest.mark.parametrize(("interval", "is_met"), [(0.0, True), (1.0, False)])
def test_a_row_may_wait_for_the_epoch_that_runs_only_if_the_next_one_begins_at_once(
    interval: float, is_met: bool
) -> None:
    latency = Latency(epochs=0.2, rows=0.29, slow_rows=0.3)
    assert latency_figure(interval, {"baseline": [latency], "tidegate": [latency]}, quick=False).is_met is is_met


@pytest.mark.parametrize(("embedded", "value", "is_met"), [(12.5, 0.8, True), (12.7, 0.79, False), (5.0, 2.0, True)])
def test_an_embedded_channel_is_to_have_four_fifths_of_the_speed_of_kafka(
    embedded: float, value: float, is_met: bool
) -> None:
    figure = speed(2_000_000, {"baseline s": [9.0, 10.0, 11.0], "tidegate s": [1.0, embedded, 99.0]})
    assert (figure.value, figure.is_met) == (value, is_met)


def taken(seconds: float = 7.1, epochs: int = 2, held: int = 0, in_flight: int = 0) -> Taken:
    return Taken(seconds, epochs, held, in_flight, wait_seconds=0.6, again=0)


def of_modes() -> list[Figure]:
    found = {name: [taken()] for name in MODES}
    found["aligned"] = [taken(7.15, held=14_000), taken(7.25, held=15_000)]
    found["unaligned"] = [taken(2.1, 1, in_flight=1_001_000), taken(2.2, 3, in_flight=1_001_000)]
    return barrier_modes.figures(found, 1_000_000)


def test_an_unaligned_checkpoint_is_to_be_complete_within_two_epochs() -> None:
    figure = of_modes()[-1]
    assert (figure.name, figure.value, figure.is_met) == ("barrier-unaligned-epochs", 2.0, True)


def test_the_alignments_have_a_table_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert "./dev bench barriers" in report.alignments_table("barriers")
    results = Results(measured="2026-01-01", quick=False, rounds=2, machine=MACHINE, figures=tuple(of_modes()))
    (tmp_path / "barriers-2026-01-01.json").write_bytes(msgspec.json.encode(results))
    lines = report.alignments_table("barriers").splitlines()
    assert lines[0].startswith("| alignment | s until it is complete | epochs of the late reader | rows held |")
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {name}" for name in MODES]
    assert lines[2] == "| aligned | 7.2 | 2 | 14,500 | 0 | 0.6 | 0 |"
    others = report.markdown_table("barriers")
    assert [line for line in others.splitlines() if line.startswith("| aligned")] == []
    assert "| 2 epochs | <= 2 met |" in others


def test_an_older_result_without_the_alignments_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    results = Results(measured="2026-01-01", quick=False, rounds=2, machine=MACHINE, figures=())
    (tmp_path / "barriers-2026-01-01.json").write_bytes(msgspec.json.encode(results))
    assert "./dev bench barriers" in report.alignments_table("barriers")


def test_the_suite_has_all_of_them() -> None:
    assert set(SUITES["barriers"]) == {"barrier-cost", "barrier-modes", "channel-throughput", "channel-latency"}
    assert MEASURES["channel-latency"] is channel_throughput.measure_latency
