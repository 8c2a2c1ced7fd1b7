"""Where Spark is installed, found without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path


def spark_home(environment: Mapping[str, str]) -> Path | None:
    """SPARK_HOME, otherwise the folder of pyspark; None if there is neither."""
    home = environment.get("SPARK_HOME")
    return Path(home) if home else pyspark_folder()


def pyspark_folder() -> Path | None:
    """The folder of pyspark; None if it is not installed."""
    spec = find_spec("pyspark")
    for folder in (spec and spec.submodule_search_locations) or []:
        return Path(folder)
    return None
