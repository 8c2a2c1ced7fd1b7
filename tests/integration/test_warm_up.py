"""`tidegate warm-up`, and the sessions that use what it made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.machine.class_archive import SUBMIT_OPTIONS, archive_file
from tidegate.spark.warm_up import LOCK

SESSION = """
from pathlib import Path
from tidegate import Job
session = Job("job").spark
jvm = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
print(Path(f"/proc/{jvm}/cmdline").read_text().replace(chr(0), " "))
print(Path(f"/proc/{jvm}/maps").read_text())
print(session.range(3).count(), "rows")
"""


def python(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=own(cache), capture_output=True, text=True, timeout=300, check=False
    )


def own(cache: Path) -> dict[str, str]:
    """The environment, with a cache of its own; what a test may have said of archives is left out."""
    return {**os.environ, "XDG_CACHE_HOME": str(cache), "JDK_JAVA_OPTIONS": "", SUBMIT_OPTIONS: ""}


@pytest.mark.more
def test_an_archive_that_does_not_fit_is_left_alone_without_a_word(tmp_path: Path):
    archive = archive_file(own(tmp_path))
    archive.parent.mkdir()
    archive.write_bytes(b"of another JVM" * 1000)
    done = python(tmp_path, "-c", SESSION)
    assert f"-XX:SharedArchiveFile={archive}" in done.stdout
    assert "3 rows" in done.stdout
    assert archive.name not in done.stderr
    assert "rchive" not in done.stderr


@pytest.mark.more
@pytest.mark.timeout(600)
def test_what_a_warm_up_makes_is_what_the_next_jvm_maps(tmp_path: Path):
    done = python(tmp_path, "-m", "tidegate.cli.main", "warm-up", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    archive = Path(made["archive"])
    assert archive == archive_file(own(tmp_path))
    assert made["bytes"] == archive.stat().st_size > 20_000_000
    assert {each.name for each in archive.parent.iterdir()} == {archive.name, LOCK}, "nothing else stays"
    _, *maps = python(tmp_path, "-c", SESSION).stdout.splitlines()
    assert any(line.endswith(str(archive)) for line in maps)


PROGRAM = """
from tidegate import FileSink, Job, RateSource
job = Job("ticks", checkpointing_dir="checkpoints", checkpointing_interval="1s")
job.query("q", job.source("ticks", RateSource(rows_per_second=1)), sinks=[FileSink("files", "out")])
job.run()
"""


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_supervised_job_that_runs_for_a_minute_makes_it(tmp_path: Path):
    (tmp_path / "app.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "tidegate.cli.main", "run", "app.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=own(tmp_path), stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        told = next(line for line in run.stderr if "archive of Spark's classes" in line)
        run.terminate()
        run.stderr.read()
    archive = archive_file(own(tmp_path))
    assert str(archive) in told
    assert archive.stat().st_size > 20_000_000
    assert run.returncode == 0


def test_without_java_there_is_none_and_the_error_says_why(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", "warm-up"],
        env={"HOME": str(tmp_path), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "TG-JAVA-MISSING" in done.stderr
