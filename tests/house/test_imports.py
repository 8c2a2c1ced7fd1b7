"""What the arrows between the packages cannot show: the root gives out its public names lazily."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import tidegate
from tests.house.measures import circles_of, imports_of, modules_below
from tests.house.repository import ROOT


def test_nothing_but_tidegate_spark_loads_pyspark() -> None:
    modules = [
        found.name
        for found in pkgutil.walk_packages(tidegate.__path__, "tidegate.")
        if not f"{found.name}.".startswith("tidegate.spark.") and not found.name.endswith("__main__")
    ]
    program = f"import sys, {', '.join(modules)}; sys.exit('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "pyspark was loaded"


def test_no_file_imports_itself_through_others() -> None:
    """Also for types alone, and inside functions: who wants to understand a file of a circle has to read all of it."""
    assert circles_of(imports_of(list(modules_below(ROOT / "src")))) == []
