"""What the benchmarks of a job that lives make of what they see; no Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from bench import __main__ as bench
from bench.child import MEASURES, OF_ANY_LENGTH, SUITES
from bench.job_folder import Amount, folder_growth, largest, parts_of
from bench.job_long import Course
from bench.job_run import JobRun
from bench.job_supervisor import figures

STAND_IN = """
import sys, time
from pathlib import Path

query = Path(sys.argv[1]) / "checkpoints" / "bench" / "queries" / "query" / "g1"
for name in ("ledger/runs", "ledger/done", "spark/commits"):
    (query / name).mkdir(parents=True)

def put(*names):
    for name in names:
        (query / name).touch()

put("ledger/done/2", "spark/commits/2", "spark/commits/3", "ledger/runs/1")
while not (Path(sys.argv[1]) / "killed").exists():
    time.sleep(0.01)
put("ledger/runs/2")
time.sleep(0.2)
put("ledger/done/3")
time.sleep(0.2)
put("spark/commits/4", "ledger/done/4")
time.sleep(60)
"""


def test_an_epoch_that_recovery_finishes_is_not_the_first_of_the_new_run(tmp_path: Path):
    """Epoch 3 stood in Spark's log when the new run began: its rows are old, and epoch 4 ends the wait."""
    program = tmp_path / "stand_in.py"
    program.write_text(STAND_IN)
    with JobRun(tmp_path, supervised=False, program=program) as job:
        job.wait(lambda: job.run() == 1, "the first run")
        (tmp_path / "killed").touch()
        again = job.again(1)
        assert again.done_at == (job.query / "ledger" / "done" / "4").stat().st_mtime
        assert again.begun_at == (job.query / "ledger" / "runs" / "2").stat().st_mtime


def test_a_job_that_has_ended_is_not_waited_for(tmp_path: Path):
    program = tmp_path / "ends.py"
    program.write_text("raise SystemExit('told why')")
    ended = pytest.raises(TimeoutError, match=r"(?s)exit code 1.*told why")
    with JobRun(tmp_path, supervised=False, program=program) as job, ended:
        job.wait(lambda: False, "an epoch", 5.0)


def test_files_are_counted_by_the_part_of_the_folder_that_they_lie_in(tmp_path: Path):
    for name, size in {
        "beat.json": 7,
        "control/answers/a.json": 10,
        "control/answers/b.json": 20,
        "queries/query/g1/ledger/done/4": 1,
        "queries/query/g1/ledger/start": 2,
        "queries/query/g1/spark/offsets/4": 5,
        "queries/query/g1/spark/metadata": 3,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    assert parts_of(tmp_path) == {
        "beat.json": Amount(1, 7),
        "control": Amount(2, 30),
        "ledger": Amount(2, 3),
        "spark/offsets": Amount(1, 5),
        "spark": Amount(1, 3),
    }


def test_a_part_counts_with_the_most_it_held() -> None:
    looks = [{"state": Amount(3, 50)}, {"state": Amount(9, 20), "control": Amount(1, 1)}, {"state": Amount(1, 10)}]
    assert largest(looks) == {"state": Amount(9, 50), "control": Amount(1, 1)}


def test_a_part_grows_by_its_files_or_its_bytes_and_one_that_is_new_has_grown() -> None:
    early = {"control": Amount(100, 1000), "ledger": Amount(40, 1000), "spark/state": Amount(10, 100)}
    late = {"control": Amount(104, 1000), "ledger": Amount(40, 1200), "spark/state": Amount(8, 120)}
    late["trash"] = Amount(2, 0)
    found = {figure.name: figure for figure in folder_growth(early, late, "from epoch 3 to 9")}
    assert {name: (figure.value, figure.is_met) for name, figure in found.items()} == {
        "job-files-control": (4.0, True),
        "job-files-ledger": (20.0, False),
        "job-files-spark-state": (20.0, True),
        "job-files-trash": (200.0, False),
    }


def test_the_supervisor_is_held_against_the_program_alone_and_the_noise_is_told() -> None:
    samples = {"baseline epoch ms": [100.0, 104.0, 98.0], "tidegate epoch ms": [102.0, 101.0, 110.0]}
    ratio, noise, share = figures(samples, [0.2, 1.5, 0.3])
    assert (ratio.value, ratio.is_met) == (1.02, True)
    assert (noise.value, noise.goal) == (6.0, None)
    assert (share.value, share.is_met) == (0.3, True)


def test_a_shorter_run_is_looked_at_after_the_same_parts_of_it() -> None:
    assert Course.of(10_000) == Course(500, 2_000, 10_000, 75.0)
    assert Course.of(2_000) == Course(100, 400, 2_000, 15.0)


def test_a_number_of_epochs_is_refused_where_nothing_has_a_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(MEASURES) >= OF_ANY_LENGTH
    assert list(SUITES["job"]) == [
        "job-restart",
        "job-restart-standby",
        "job-query-restart",
        "job-supervisor",
        "job-long",
    ]
    with patch.object(sys, "argv", ["bench", "core", "--epochs", "100"]), pytest.raises(SystemExit):
        bench.main()
    assert "--epochs is for job-long" in capsys.readouterr().err
