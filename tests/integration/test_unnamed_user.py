"""A user id without a name, as in a container that is started with a number for its user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.driver import PYTHON_PATH

UNNAMED = 12345
PROGRAM = """
from tidegate import Job, PrintSink, RateSource

job = Job("rates", checkpointing_dir=".tidegate")
job.query("query", job.source("rate", RateSource()), sinks=[PrintSink("out")])
job.run()
"""


def test_a_check_says_what_is_wrong_and_how_to_solve_it(tmp_path: Path) -> None:
    done = as_nobody_known(tmp_path, "-m", "tidegate.cli.main", "check", "--dir", str(tmp_path))
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert (done.returncode, len(failed)) == (1, 1), done.stdout + done.stderr
    assert "user" in failed[0]
    assert f"user id {UNNAMED}" in done.stdout
    assert "/etc/passwd" in done.stdout


def test_a_start_is_refused_before_a_jvm_is_started(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    done = as_nobody_known(tmp_path, "app.py")
    assert done.returncode == 1
    assert "TG-USER-UNNAMED" in done.stderr
    assert f"'job:x:{UNNAMED}:{UNNAMED}::" in done.stderr
    assert "Exception" not in done.stderr
    assert "WARN" not in done.stderr, "no JVM has said anything"
    assert not (tmp_path / ".tidegate").exists()


def as_nobody_known(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python under a user id that /etc/passwd does not have: this user's, under another number."""
    numbers = [f"--map-user={UNNAMED}", f"--map-group={UNNAMED}"]
    return subprocess.run(
        ["unshare", "--user", *numbers, sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
