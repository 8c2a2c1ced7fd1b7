"""Which of Spark's error conditions no restart cures: the table knows every one that is of state or of the log."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pyspark

from tidegate.core.errors import Code
from tidegate.spark.state.fault import CODES, KINDS
from tidegate.supervise.cures import can_restart, refuses


def test_every_condition_of_the_installed_spark_that_is_of_state_has_its_place_in_the_table():
    of_state = {name for name in conditions() if name.startswith(KINDS)}
    assert of_state, "Spark keeps them somewhere else"
    assert of_state - CODES.keys() == set(), "say of each whether a restart cures it"


def test_no_code_of_the_table_is_followed_by_a_restart():
    codes = {code for code in CODES.values() if code is not None}
    assert not any(can_restart([code], has_run=True) for code in codes)
    assert all(refuses(code) for code in codes - {Code.QUERY_REFUSED})


def conditions() -> set[str]:
    """The names of Spark's error conditions, with those of their parts."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as opened:
        found = json.loads(opened.read("error/error-conditions.json"))
    return {part for name, entry in found.items() for part in _parts(name, entry)}


def _parts(name: str, entry: dict[str, object]) -> list[str]:
    parts = entry.get("subClass")
    return [f"{name}.{part}" for part in parts] if isinstance(parts, dict) and parts else [name]
