"""Checks in a process of its own what the executors of a cluster can import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from tidegate.core.health import Finding, failed
from tidegate.core.json_formats import parsed
from tidegate.core.redaction import SECRETS
from tidegate.logs.last_word import is_verbose
from tidegate.machine.own_python import module_command
from tidegate.submit.submission import Submission

FOUND = "tidegate: finding: "
"""The process prints one such line for each finding: a `Finding` in JSON."""

_SECONDS = 150
_STEP = "look at the cluster's page for free cores and memory, and whether its workers reach this machine"


def check_executors(submission: Submission, environment: Mapping[str, str]) -> list[Finding]:
    """One finding for each executor that takes a task. `environment`: additional variables of the process."""
    master = submission.master or "spark.master"
    given = {**os.environ, **environment}
    command = module_command("tidegate.spark.executor_check")
    try:
        done = subprocess.run(
            command,
            env={**given, **submission.environment(given)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [failed(master, f"no executor has answered within {_SECONDS} s", _STEP)]
    if is_verbose(given):
        print(SECRETS.hide(done.stderr), file=sys.stderr, flush=True)
    lines = [line.removeprefix(FOUND) for line in done.stdout.splitlines() if line.startswith(FOUND)]
    return [parsed(line.encode(), Finding) for line in lines] or [failed(master, _last_line(done.stderr), _STEP)]


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "Error" in line]
    return (telling or lines or ["it said nothing"])[-1][:500]
