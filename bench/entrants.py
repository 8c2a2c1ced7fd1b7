"""The programs that are compared, each as its users run it."""

from __future__ import annotations

import sys
from pathlib import Path

from bench import flink
from bench.environments import BYTEWAX, FLINK, QUIX, Environment
from bench.watched import Entrant, Task

_PROCESSES = "2"
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


def spark() -> Entrant:
    """Plain Spark with its own Kafka sink, at-least-once."""

    def command(task: Task) -> list[str]:
        program = [sys.executable, "-m", "bench.spark_program", task.work]
        return [*program, task.servers, task.source, task.out, str(task.folder / "checkpoints")]

    return Entrant("Spark's own sink", command)


def quix() -> Entrant:
    return _of_processes(QUIX, "quix_program.py")


def bytewax() -> Entrant:
    return _of_processes(BYTEWAX, "bytewax_program.py")


def _of_processes(environment: Environment, program: str) -> Entrant:
    """One that scales by processes: one for each core and partition."""

    def command(task: Task) -> list[str]:
        begin = [str(environment.python()), str(_HERE / program), _PROCESSES, task.work]
        return [*begin, task.servers, task.source, task.out, str(task.folder)]

    return Entrant(environment.title, command)
