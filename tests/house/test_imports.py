"""What the arrows between the packages cannot show: the root gives out its public names lazily."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import grimp

import tidegate


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
    graph = grimp.build_graph("tidegate", cache_dir=None)
    try:
        TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None
