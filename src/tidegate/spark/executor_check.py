"""`python -m tidegate.spark.executor_check`: opens a session by PYSPARK_SUBMIT_ARGS and prints one finding a line.

A process of its own: `tidegate check` must not import pyspark, and a session cannot be tried twice in one process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidegate.core.errors import TidegateError
from tidegate.core.health import Finding, failed, failed_by, ok
from tidegate.core.next_steps import NEXT_STEPS
from tidegate.extras import Extra
from tidegate.operate.executor_check import FOUND
from tidegate.spark.executors import executors_of, python_here
from tidegate.spark.session import suit_executors
from tidegate.submit.executor_environment import executor_settings
from tidegate.submit.executor_python import PythonThere, differences, modules_of
from tidegate.submit.masters import Master


def main() -> int:
    """Print the findings."""
    for finding in _findings():
        print(f"{FOUND}{msgspec.json.encode(finding).decode()}", flush=True)
    return 0


def _findings() -> Iterator[Finding]:
    session = _session()
    packages = modules_of([extra for extra in Extra if not extra.missing])
    here = python_here(packages)
    try:
        executors = executors_of(session, packages)
    except TidegateError as error:
        yield from failed_by("executors", error)
        return
    except Py4JJavaError as error:
        lines = str(error).strip().splitlines()
        yield failed("executors", lines[min(1, len(lines) - 1)][:500], "see the logs of the executors")
        return
    for each in executors:
        yield _finding(here, each, packages)
    session.stop()


def _finding(here: PythonThere, executor: PythonThere, packages: dict[str, str]) -> Finding:
    subject = f"executor on {executor.host}"
    found = "; ".join(differences(here, executor, packages))
    if found:
        return failed(subject, f"{executor.executable}: {found}", NEXT_STEPS["TG-EXECUTOR-PYTHON"])
    versions = ", ".join(f"{name} {version}" for name, version in executor.versions.items() if version)
    return ok(subject, f"Python {executor.python}, {versions}")


def _session() -> SparkSession:
    """With Spark's own daemon of workers, which runs without tidegate."""
    SparkContext.getSystemProperty("spark.master")  # starts the JVM
    said = SparkConf()
    wanted = {
        "spark.app.name": "tidegate check",
        "spark.ui.showConsoleProgress": "false",
        **executor_settings(os.environ, Master.of(said.get("spark.master", ""))),
    }
    builder = SparkSession.builder
    for name, value in wanted.items():
        if not said.contains(name):
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    suit_executors(session)
    return session


if __name__ == "__main__":
    sys.exit(main())
