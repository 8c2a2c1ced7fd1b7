"""A session that tidegate opens, where somebody else has already said how Spark is to run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from tests.support.today import turn
from tidegate.spark.worker_daemon import MODULE

PROGRAM = """
import os, time
from pathlib import Path
from tidegate import Job

def daemons():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_text().split("\\0")
            if os.getsid(int(name)) == os.getsid(0) and "pyspark.worker" in words:
                yield words[words.index("-m") + 1]
        except OSError:
            pass

context = Job("job").spark.sparkContext
print("seen:", context.master, context.defaultParallelism, context.appName)
for key in ("spark.sql.adaptive.enabled", "spark.ui.retainedJobs", "spark.ui.showConsoleProgress"):
    print(key, context.getConf().get(key))
end = time.monotonic() + 30
while not list(daemons()) and time.monotonic() < end:
    time.sleep(0.1)
print("workers are forked by", *set(daemons()))
"""
LOCAL = ["local[3]", "3", "job"]
SUBMIT = Path(pyspark.__path__[0], "bin", "spark-submit")


def run(folder: Path, *command: str | Path, environment: Mapping[str, str]) -> list[str]:
    """What the program says that the command runs."""
    done = subprocess.run(
        [*command, _program(folder)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
        capture_output=True,
        start_new_session=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout[done.stdout.index("seen:") :].splitlines()
    return [*first.split()[1:], *rest]


@turn(2, of=3)
def test_what_spark_submit_says_stands_and_the_rest_suits_short_epochs(tmp_path: Path):
    options = ["--master", "local[3]", "--conf", "spark.sql.adaptive.enabled=true"]
    assert run(tmp_path, SUBMIT, *options, environment={}) == [
        *LOCAL,
        "spark.sql.adaptive.enabled true",
        "spark.ui.retainedJobs 200",
        "spark.ui.showConsoleProgress false",
        f"workers are forked by {MODULE}",
    ]


@pytest.mark.more
def test_the_defaults_of_an_installation_stand(tmp_path: Path):
    (tmp_path / "spark-defaults.conf").write_text("spark.master local[3]\nspark.ui.retainedJobs 7\n")
    assert run(tmp_path, sys.executable, environment={"SPARK_CONF_DIR": str(tmp_path)}) == [
        *LOCAL,
        "spark.sql.adaptive.enabled false",
        "spark.ui.retainedJobs 7",
        "spark.ui.showConsoleProgress false",
        f"workers are forked by {MODULE}",
    ]


def _program(folder: Path) -> Path:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    return program
