"""Makes Arrow arrays from Python values, without pandas.

The first `pyarrow.array` or `pyarrow.scalar` in a process imports pandas, to recognize its types. This takes a Python
worker of Spark about a second. The functions here build arrays from buffers, so a worker that uses only them does not
import pandas.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

_CODES: Mapping[pa.DataType, str] = {pa.int32(): "i", pa.int64(): "q", pa.timestamp("ms", "UTC"): "q"}


def binaries(values: Sequence[bytes | None], kind: pa.DataType | None = None) -> pa.Array[Any]:
    """An array of `pa.binary()`, or of `pa.string()` where the values are UTF-8; less than 2 GiB of them."""
    contents = [value or b"" for value in values]
    offsets = array("i", accumulate(map(len, contents), initial=0))
    valid = _bitmap(values) if None in values else None
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(b"".join(contents))]
    return pa.Array.from_buffers(kind or pa.binary(), len(values), buffers)


def integers(values: Sequence[int], kind: pa.DataType) -> pa.Array[Any]:
    """An array of `pa.int32()`, `pa.int64()` or of milliseconds, `pa.timestamp("ms", "UTC")`."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(_CODES[kind], values))])


def _bitmap(values: Sequence[bytes | None]) -> pa.Buffer:
    bits = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        if value is not None:
            bits[index >> 3] |= 1 << (index & 7)
    return pa.py_buffer(bytes(bits))
