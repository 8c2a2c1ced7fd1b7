"""What a driver with a head start does before it runs its program: it imports Spark and tidegate, and starts a JVM.

Nothing of the program runs, no lock is taken, and no source and no sink is opened (`supervise/head_start.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module

from tidegate.storages.schemes import Folder

OF_THE_FIRST_CALL = ("pyspark.testing.utils",)
"""The modules that pyspark imports with its first call into the JVM. They import pandas."""
_OF_A_PROGRAM = ("tidegate.spark.job", "pyspark.sql.functions", *OF_THE_FIRST_CALL)
"""The modules that almost every program needs."""


def get_ahead(job_folder: Folder) -> None:
    """Return when all is there."""
    imports = import_meanwhile(_OF_A_PROGRAM)
    from tidegate.spark.early_jvm import start_early  # it imports pyspark

    start_early(job_folder)
    imports.join()


def import_meanwhile(names: Iterable[str]) -> threading.Thread:
    """Import these modules in a thread, while a JVM starts. Returns the thread."""
    thread = threading.Thread(target=_import, args=(names,), name="tidegate-imports", daemon=True)
    thread.start()
    return thread


def _import(names: Iterable[str]) -> None:
    for name in names:
        with suppress(ImportError):  # the program meets it, too
            import_module(name)
