"""What a driver with a head start does before it runs its program: it imports Spark and tidegate, and starts a JVM.

Nothing of the program runs, no lock is taken, and no source and no sink is opened (`supervise/head_start.py`).
"""

from __future__ import annotations

import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path

_IMPORTS = ("tidegate.spark.job", "pyspark.sql.functions", "pyspark.testing.utils")
"""What almost every program needs. pyspark imports the last one with its first call into the JVM."""


def get_ahead(job_folder: Path) -> None:
    """Return when all is there."""
    imports = threading.Thread(target=_import, name="tidegate-imports", daemon=True)
    imports.start()
    from tidegate.spark.early_jvm import start_early  # it imports pyspark

    start_early(job_folder)
    imports.join()


def _import() -> None:
    for name in _IMPORTS:
        with suppress(ImportError):  # the program meets it, too
            import_module(name)
