"""The benchmarks of a job that lives, with real Spark: short runs, whose figures say nothing of speed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.figures import Figure, Results

ROOT = Path(__file__).parents[2]


def measured(*arguments: str, suite: str = "job") -> dict[str, Figure]:
    """By name. The exit code is 1 when a goal was missed, as short runs do."""
    command = [sys.executable, "-m", "bench", suite, "--quick", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout, done.stderr
    return {figure.name: figure for figure in msgspec.json.decode(done.stdout, type=Results).figures}


@pytest.mark.more
@pytest.mark.parametrize("name", ["job-restart", "job-restart-standby", "job-query-restart"])
def test_a_restart_is_timed_and_its_state_weighed(name: str):
    """A thousand keys of 92 characters, with counts of 8 bytes: 0.1 MB. The pause alone is a second."""
    figures = measured("--only", name)
    assert figures[f"{name}-state"].value == 0.1
    assert 1.0 < figures[name].value < 120.0
    decided, begun, done = (
        figures[name].medians()[f"tidegate {each}"]
        for each in ("s until the supervisor has decided", "s until the new run begins", "s")
    )
    assert 0 < decided < decided + 1.0 < begun < done


@pytest.mark.more
def test_both_sides_of_the_supervisor_are_measured():
    ratio = measured("--only", "job-supervisor")["job-supervisor"]
    assert ratio.samples.keys() == {"baseline epoch ms", "tidegate epoch ms"}
    assert all(number > 0 for side in ratio.samples.values() for number in side)


@pytest.mark.more
def test_the_long_run_weighs_three_processes_and_every_part_of_the_folder():
    figures = measured("--only", "job-long", "--epochs", "40")
    sizes = [figures[f"job-memory-{each}"].medians() for each in ("python", "jvm", "supervisor", "worker")]
    assert all(size["early MiB"] > 5 and size["late MiB"] > 5 for size in sizes)
    parts = {name.removeprefix("job-files-") for name in figures if name.startswith("job-files-")}
    assert parts >= {"beat.json", "control", "history", "ledger", "spark-offsets", "spark-commits", "spark-state"}
    assert figures["job-files-spark-offsets"].medians()["late files"] > 0
