"""The modules beside the program, for functions that run in tasks: only the driver's Python finds them there.

A worker searches the working folder of the JVM, which is the program's folder only if the program was started there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def let_tasks_import(session: SparkSession) -> None:
    """Let the session's Python workers import modules from the program's folder.

    Other import paths are searched first.
    """
    folder = _program_folder()
    if folder is None:
        return
    environment: dict[str, str] = session.sparkContext.environment
    looked_in = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    if folder not in looked_in:
        environment["PYTHONPATH"] = os.pathsep.join([*looked_in, folder])


def _program_folder() -> str | None:
    """The folder of a file that is run as a program. None for a module of a package (`python -m`) and for a
    notebook.
    """
    program = sys.modules.get("__main__")
    file = getattr(program, "__file__", None)
    if file is None or getattr(program, "__spec__", None) is not None:
        return None
    return str(Path(file).resolve().parent)
