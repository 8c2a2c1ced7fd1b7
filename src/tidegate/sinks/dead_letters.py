"""Dead letters: the rows that a sink cannot hold, as rows for another sink.

A refused row becomes one row with these columns, none of them null:

| column | type | value |
|---|---|---|
| query, sink | string | the uids of the query, and of the sink that refused the row (empty: it did not parse) |
| epoch | bigint | the epoch that the row came in |
| code | string | the code of the refusal (docs/errors.md) |
| reason | string | the column, what was expected there, and what was found |
| row | string | the whole row as a JSON object, as `JSONLinesWriter` writes it |

In `row`, bytes are base64. A text that is not UTF-8 has `\\xNN` for each of its other bytes: a reader sees the text,
and all of its bytes. (A valid text that has such four characters in it looks the same.)
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
"""What a sink of dead letters gets."""


def dead_letters(attempt: Attempt, sink: str, rows: pa.RecordBatch, refused: Sequence[RowRefused]) -> pa.RecordBatch:
    """One row of `SCHEMA` for each of `refused`, in their order.

    `attempt`: whose query and epoch they are of; `sink`: the one that refused, or empty; `rows`: the batch that it was
    given, which `RowRefused.row` counts in.
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
    """Every row of `texts`, which did not parse."""
    return [
        RowRefused(
            code=Code.ROW_UNPARSED,
            row=row,
            expected="a text that parses by the schema of parsed_or_dead",
            found="one that does not",
            next_step="mend the text at its origin, or the schema",
        )
        for row in range(texts.num_rows)
    ]


def reason_of(refused: RowRefused) -> str:
    """Why a row was refused, in one line."""
    column = "" if refused.column is None else f"column {refused.column!r}: "
    return f"{column}expected {refused.expected}, found {refused.found}"


def without(rows: pa.RecordBatch, refused: Sequence[RowRefused]) -> pa.RecordBatch:
    """The rows that are left, in their order."""
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
