"""Dead letters: rows that a sink cannot hold, as rows for another sink.

A refused row becomes one row with these columns, none of them null:

| column | type | value |
|---|---|---|
| query, sink | string | the uid of the query, and of the sink that refused the row (empty: the row did not parse) |
| epoch | bigint | the epoch of the row |
| code | string | the code of the refusal (docs/errors.md) |
| reason | string | the column, the expected value and the found value |
| row | string | the whole row as a JSON object, as `JSONLinesWriter` writes it |

In `row`, bytes are base64. A text that is not UTF-8 has `\\xNN` for each byte outside UTF-8, so all its bytes stay
readable. (A valid text that contains these four characters looks the same.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.arrays import binaries, integers
from tidegate.core.errors import Code
from tidegate.core.records import Attempt
from tidegate.sinks.arrow import batch_of
from tidegate.sinks.json_lines import json_objects
from tidegate.sinks.row_values import with_valid_texts
from tidegate.sinks.rows import RowRefused

_TEXTS = ("query", "sink", "code", "reason", "row")
COLUMNS = ("query", "sink", "epoch", "code", "reason", "row")
SCHEMA = pa.schema([pa.field(name, pa.string() if name in _TEXTS else pa.int64(), nullable=False) for name in COLUMNS])
"""The schema of the rows that a sink of dead letters receives."""


def dead_letters(attempt: Attempt, sink: str, rows: pa.RecordBatch, refused: Sequence[RowRefused]) -> pa.RecordBatch:
    """One row of `SCHEMA` for each of `refused`, in their order.

    `attempt`: its query and epoch are those of the rows. `sink`: the sink that refused the rows, or empty. `rows`: the
    batch that the sink received; `RowRefused.row` is an index into it.
    """
    texts = json_objects(with_valid_texts(_chosen(rows, [_place(each) for each in refused]), "backslashreplace"))
    return batch_of(
        [
            _repeated(attempt.sink.query, len(refused)),
            _repeated(sink, len(refused)),
            integers([attempt.epoch] * len(refused), pa.int64()),
            binaries([each.code.encode() for each in refused], pa.string()),
            binaries([reason_of(each).encode("utf-8", "backslashreplace") for each in refused], pa.string()),
            binaries(texts, pa.string()),
        ],
        COLUMNS,
    )


def unparsed(texts: pa.RecordBatch) -> list[RowRefused]:
    """One row of `SCHEMA` for each of `texts`, which did not parse."""
    return [
        RowRefused(
            code=Code.ROW_UNPARSED,
            row=row,
            expected="a text that parses by its schema",
            found="one that does not",
            next_step="mend the text at its origin, or the schema",
        )
        for row in range(texts.num_rows)
    ]


def reason_of(refused: RowRefused) -> str:
    """The reason of a refusal, in one line."""
    column = "" if refused.column is None else f"column {refused.column!r}: "
    return f"{column}expected {refused.expected}, found {refused.found}"


def without(rows: pa.RecordBatch, refused: Sequence[RowRefused]) -> pa.RecordBatch:
    """The rows that were not refused, in their order."""
    gone = {_place(each) for each in refused}
    return _chosen(rows, [row for row in range(rows.num_rows) if row not in gone])


def _chosen(rows: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
    return rows.take(integers(places, pa.int64()))


def _place(refused: RowRefused) -> int:
    if refused.row is None:
        raise ValueError("`refused` of a sink names the row")
    return refused.row


def _repeated(text: str, times: int) -> pa.Array[Any]:
    return binaries([text.encode()] * times, pa.string())
