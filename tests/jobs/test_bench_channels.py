"""The benchmarks of channels and barriers, with real Spark and a real broker: few rows, whose figures say nothing of
speed.
"""

from __future__ import annotations

import pytest

from tests.jobs.test_bench_job import measured


@pytest.mark.more
@pytest.mark.timeout(600)
def test_every_row_comes_through_both_kinds_of_channel():
    """The benchmark itself fails if the reader has not written each row once."""
    figure = measured("--only", "channel-throughput", suite="barriers")["channel-throughput"]
    assert figure.samples.keys() == {"baseline s", "tidegate s"}
    assert all(seconds > 0 for side in figure.samples.values() for seconds in side)


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_row_takes_longer_than_half_an_epoch_of_each_query_and_at_an_interval_it_waits_for_it():
    figures = measured("--only", "channel-latency", suite="barriers")
    busy, apart = (figures[f"channel-latency-{interval}"].medians() for interval in (0, 1))
    for side in ("baseline", "tidegate"):
        assert 0 < busy[f"{side} ms"] <= busy[f"{side} ms percentile 99"]
        assert busy[f"{side} ms"] > busy[f"{side} ms of both epochs"] / 2
        assert apart[f"{side} ms of both epochs"] > 1500, "about a second for each query"


@pytest.mark.more
@pytest.mark.timeout(600)
def test_the_other_input_is_held_only_while_a_checkpoint_is_aligned():
    """The benchmark itself fails if a checkpoint has another alignment, or other rows in flight than those behind."""
    figures = measured("--only", "barrier-modes", suite="barriers")
    found = {name: figures[f"barrier-lag-{name}"].medians() for name in ("aligned", "unaligned", "at-least-once")}
    assert found["aligned"]["tidegate rows held"] > 0 == found["at-least-once"]["tidegate rows held"]
    assert found["at-least-once"]["tidegate rows that come again after a restore"] > 0
    assert found["aligned"]["tidegate rows that come again after a restore"] == 0
    assert found["unaligned"]["tidegate rows in flight"] >= 50_000 > found["aligned"]["tidegate rows in flight"]
    assert figures["barrier-unaligned-epochs"].is_met
