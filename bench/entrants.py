"""The programs that are compared, each as its users run it."""

from __future__ import annotations

import sys
from pathlib import Path

from bench import flink
from bench.environments import FLINK
from bench.watched import Entrant, Task

_HERE = Path(__file__).parent


def tidegate(way: str, level: str = "exactly-once") -> Entrant:
    """`way`: `sql` or `python`; `level`: the job's `checkpointing.mode`."""

    def command(task: Task) -> list[str]:
        program = [sys.executable, "-m", "bench.tidegate_program", task.work, way, level]
        return [*program, task.servers, task.source, task.out, str(task.folder / "checkpoints")]

    return Entrant(f"tidegate {way}, {level}", command)


def pyflink(way: str) -> Entrant:
    """`way`: `sql`, `python` or `pandas`."""

    def command(task: Task) -> list[str]:
        program = [str(FLINK.python()), str(_HERE / "flink_program.py"), task.work, way]
        return [*program, task.servers, task.source, task.out, str(flink.connector_jar())]

    return Entrant(f"PyFlink {way}", command)
