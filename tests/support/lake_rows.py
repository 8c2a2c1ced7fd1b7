"""Rows with every type that a lake can hold, and with edges of these types."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa


def every_type(*without: str) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """The schema; a row of values, and a row of nulls. `without`: columns that a lake does not take."""
    inner = pa.struct([pa.field("a", pa.int16(), nullable=False), pa.field("b", pa.list_(pa.string()))])
    schema = pa.schema(
        [
            ("i8", pa.int8()),
            ("i16", pa.int16()),
            ("i32", pa.int32()),
            ("i64", pa.int64()),
            ("f", pa.float32()),
            ("d", pa.float64()),
            ("b", pa.bool_()),
            ("s", pa.string()),
            ("by", pa.binary()),
            ("day", pa.date32()),
            ("dec", pa.decimal128(20, 3)),
            ("short", pa.decimal128(9, 2)),
            ("middle", pa.decimal128(18, 6)),
            ("ts", pa.timestamp("us", tz="Europe/Berlin")),
            ("ntz", pa.timestamp("us")),
            ("st", inner),
            ("m", pa.map_(pa.string(), inner)),
            ("ls", pa.list_(pa.timestamp("us"))),
        ]
    )
    moment = datetime(2026, 3, 29, 1, 59, 59, 999_999)  # noqa: DTZ001
    row: dict[str, Any] = {
        "i8": -128,
        "i16": 32_767,
        "i32": -(2**31),
        "i64": 2**63 - 1,
        "f": 0.5,
        "d": float("inf"),
        "b": True,
        "s": "é✓\n\0",
        "by": b"\xff\0",
        "day": date(1582, 10, 4),
        "dec": Decimal("-12345678901234567.891"),
        "short": Decimal("-1234567.89"),
        "middle": Decimal("123456789012.345678"),
        "ts": moment.replace(tzinfo=timezone.utc),
        "ntz": moment,
        "st": {"a": 1, "b": ["x", None]},
        "m": [("k", {"a": 2, "b": None}), ("l", None)],
        "ls": [moment, None],
    }
    for name in without:
        schema = schema.remove(schema.get_field_index(name))
        del row[name]
    return schema, [row, dict.fromkeys(schema.names)]
