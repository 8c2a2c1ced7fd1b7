"""The demo with Kafka at both ends, through the real command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_demo import run_demo


@pytest.mark.more
@pytest.mark.timeout(300)
def test_with_topics_at_both_ends_a_kill_loses_and_repeats_nothing(tmp_path: Path) -> None:
    code, report, told = run_demo(tmp_path, "--kafka", "--crashes", "1", "--lines", "200", "--seed", "1")
    assert code == 0, (report, told)
    assert (report["records_in"], report["records_out"]) == (200, 200)
    assert (report["kills"], report["epochs"] >= 8) == (1, True)


@pytest.mark.more
@pytest.mark.timeout(300)
def test_sparks_own_kafka_sink_repeats_rows(tmp_path: Path) -> None:
    arguments = ("--kafka", "--crashes", "1", "--lines", "200", "--gate", "off", "--seed", "1")
    code, report, told = run_demo(tmp_path, *arguments)
    assert code == 1, (report, told)
    assert report["duplicated"] > 0
    assert (report["lost"], report["invented"]) == (0, 0)
