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
    """Return when all is there.

    pyspark is imported in this thread alone. Its imports are circular: one of two threads that import it at once may
    find a half of it, and fail.
    """
    from tidegate.spark.early_jvm import start_early  # it imports pyspark

    imports = importing(_OF_A_PROGRAM)
    start_early(job_folder, imports.start)
    if imports.ident is None:  # no JVM was to be started
        imports.start()
    imports.join()


def importing(names: Iterable[str]) -> threading.Thread:
    """A thread, not yet started, that imports these modules while a JVM starts."""
    return threading.Thread(target=_import, args=(names,), name="tidegate-imports", daemon=True)


def _import(names: Iterable[str]) -> None:
    for name in names:
        with suppress(ImportError):  # the program meets it, too
            import_module(name)
