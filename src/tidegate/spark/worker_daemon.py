"""`python -m tidegate.spark.worker_daemon`: Spark's daemon of Python workers, with their modules imported once.

Spark's own daemon imports nothing, because a process with threads must not be forked and libraries may start some. So
each worker imports on its own: a second and a half of work, more with pandas. Here the threads are counted after the
imports. If there is more than one, or they cannot be counted, Spark's own daemon replaces this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tidegate.logs.last_word import is_verbose

MODULE = "tidegate.spark.worker_daemon"
NEEDED = ("pyspark.worker", "pandas", "tidegate.spark.writer")
"""Modules that a worker needs to write, and, with pandas, for a user function over Arrow. No modules of the user: these
may change while the daemon lives.
"""

_NO_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps Arrow from starting a thread at its import. Its other allocator does the same work without it."""


def main() -> None:
    os.setpgid(0, 0)  # as Spark's daemon does, after its imports: a signal to the program's group is for the program
    if not _is_safe_to_fork():
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    daemon: Any = import_module("pyspark.daemon")
    daemon.worker = ending_quietly(daemon.worker)
    daemon.manager()


def ending_quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker whose JVM no longer reads has nothing to report: its task has failed, which is reported elsewhere, or
    the JVM has all rows that it needs. Spark's daemon would show a traceback.
    """

    def quiet(*given: object) -> int:
        try:
            return worker(*given)
        except BrokenPipeError:
            return 1

    return worker if is_verbose(os.environ) else quiet


def _is_safe_to_fork() -> bool:
    """Import the modules, and check that the process still has one thread."""
    threads = Path("/proc/self/task")
    if not threads.is_dir():
        return False
    for name, value in _NO_THREADS.items():
        os.environ.setdefault(name, value)
    for module in NEEDED:
        import_module(module)
    return len(list(threads.iterdir())) == 1


if __name__ == "__main__":
    main()
