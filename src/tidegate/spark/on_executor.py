"""Runs on executors that may lack tidegate: Spark sends these functions by their text, so they use only what every
Python has.
"""

from __future__ import annotations

import importlib
import json
import platform
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def look_at_python(modules: list[str]) -> Callable[[Iterable[object]], Iterator[str]]:
    """For `mapPartitions`: one JSON object for each task, the fields of `PythonThere`."""

    def look(_: Iterable[object]) -> Iterator[str]:
        versions: dict[str, str] = {}
        missing: dict[str, str] = {}
        for name in ["pyspark", *modules]:
            try:
                module: Any = importlib.import_module(name)
            except Exception as error:  # noqa: BLE001 (told to the driver)
                missing[name] = f"{type(error).__name__}: {error}"
                continue
            try:
                versions[name] = str(module.__version__)
            except Exception:  # noqa: BLE001 (a module need not have one, and that of tidegate needs its metadata)
                versions[name] = ""
        yield json.dumps(
            {
                "host": socket.gethostname(),
                "python": platform.python_version(),
                "executable": sys.executable,
                "versions": versions,
                "missing": missing,
            }
        )

    return look
