"""`python -m tidegate.spark.worker_daemon`: Spark's daemon of Python workers, with their modules imported once.

Spark's own daemon imports nothing, because a process with threads must not be forked and libraries may start some. So
each worker imports on its own: a second and a half of work, more with pandas. Here the threads are counted after the
imports. If there is more than one, or they cannot be counted, Spark's own daemon replaces this process.

Spark's JVM also puts archives with pyspark before an installed pyspark: two zips and a jar. Python compiles each module
of a zip anew, and Spark's worker lets Python read the lists of all archives again before each task (measured: 75 ms of
CPU time for the zips alone). Here the installed package is used.

Python searches the working folder and PYTHONPATH before its standard library. So a program or a module beside it with
the name `numbers.py` would take the place of Python's module, which pandas imports: the daemon would die, and Spark
would say only that it cannot read a port number. Here the standard library comes first, while the daemon imports its
own modules; the user's functions then find what they have always found.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tidegate.logs.last_word import is_verbose

MODULE = "tidegate.spark.worker_daemon"
NEEDED = ("pyspark.worker", "pandas", "tidegate.spark.writer")
"""Modules that a worker needs to write, and, with pandas, for a user function over Arrow. No modules of the user: these
may change while the daemon lives.
"""

OPTIONAL = ("tidegate.sinks.kafka.sink", "tidegate.spark.sources.kafka_stream")
"""Modules that a worker needs if the program has imported them before it opened its session."""
IMPORTS = "TIDEGATE_WORKER_IMPORTS"
"""The environment variable that tells the daemon which of these it is, separated by commas."""

_NO_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps Arrow from starting a thread at its import. Its other allocator does the same work without it."""


def main() -> None:
    archives = archives_of_installed(sys.path)
    sys.path[:] = [entry for entry in sys.path if entry not in archives]
    # Folders of an archive, too: an import before this line may have looked for a module in one of them.
    for place in [place for place in sys.path_importer_cache if place.startswith(tuple(archives))]:
        del sys.path_importer_cache[place]
    os.setpgid(0, 0)  # as Spark's daemon does, after its imports: a signal to the program's group is for the program
    if not _is_safe_to_fork():
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    # Workers collect garbage after each task: it would visit some 80,000 objects that are never freed.
    gc.collect()
    gc.freeze()
    daemon: Any = import_module("pyspark.daemon")
    daemon.worker = ending_quietly(daemon.worker)
    daemon.manager()


def archives_of_installed(path: Sequence[str]) -> list[str]:
    """The archives in `path` that belong to a pyspark which is installed in another folder of `path`."""
    homes = [
        Path(entry, "pyspark") for entry in path if all(Path(entry, name).is_dir() for name in ("pyspark", "py4j"))
    ]
    return [entry for entry in path if any(home in Path(entry).parents for home in homes) and Path(entry).is_file()]


def standard_library_first(path: Sequence[str]) -> list[str]:
    """The entries of `path`, those of Python's standard library before all others."""
    home = Path(os.__file__).parent
    archive = home.with_name(f"python{sys.version_info.major}{sys.version_info.minor}.zip")
    return sorted(path, key=lambda entry: Path(entry) not in {home, home / "lib-dynload", archive})


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
    searched = list(sys.path)
    sys.path[:] = standard_library_first(searched)
    for module in (*NEEDED, *filter(None, os.environ.get(IMPORTS, "").split(","))):
        import_module(module)
    sys.path[:] = searched
    return len(list(threads.iterdir())) == 1


if __name__ == "__main__":
    main()
