"""Arrays made of buffers: what pyarrow itself makes of the same values, without pandas."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.arrays import binaries, integers


@given(st.lists(st.none() | st.binary(max_size=5), max_size=40))
def test_binaries_are_those_of_pyarrow(values: list[bytes | None]):
    made = binaries(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.binary()))


@given(st.lists(st.none() | st.text(max_size=5), max_size=40))
def test_texts_are_those_of_pyarrow(values: list[str | None]):
    made = binaries([None if value is None else value.encode() for value in values], pa.string())
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.string()))


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.timestamp("ms", "UTC")], ids=str)
@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=40))
def test_integers_are_those_of_pyarrow(kind: pa.DataType, values: list[int]):
    made = integers(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, kind))


def test_what_runs_in_a_worker_for_every_epoch_imports_no_pandas():
    """It takes a second of each new worker."""
    program = """
import sys
import pyarrow as pa
import tidegate.sources.kafka.reading, tidegate.sinks.kafka.transaction, tidegate.spark.writer
from tidegate.sources.kafka.offsets import OffsetRange
from tidegate.sources.kafka.reading import _COLUMNS
class Message:
    key = value = lambda self: b"x"
    timestamp = lambda self: (1, 5)
    offset = lambda self: 7
for name, column in _COLUMNS.items():
    if name != "headers":
        column([Message()], OffsetRange("t", 0, 0, 9))
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
