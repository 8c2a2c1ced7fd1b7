"""The interface of a file format's row writer, and the refusal of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

import pyarrow as pa

from tidegate.core.errors import Code, Detail, TidegateError
from tidegate.core.records import Attempt
from tidegate.core.redaction import SECRETS
from tidegate.core.telling import DETAIL_AT_MOST, shortened


class RowWriter(Protocol):
    """Writes rows into an open file."""

    @property
    def held_bytes(self) -> int:
        """Estimated size of the rows that are taken but not yet in the file, as Arrow bytes."""
        ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. Refused values were removed before (`Format.refuses`), so no row is refused here."""

    def flush(self) -> None:
        """Write the buffered rows. More rows may follow."""

    def close(self) -> None:
        """Write the buffered rows and, if the format has one, its footer. Does not close the file."""

    def abandon(self) -> None:
        """Stop without a footer, also after an error."""


class StraightWriter:
    """The half of a writer that buffers nothing and has no footer."""

    held_bytes = 0

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class RowRefused(TidegateError):
    """A row that a sink refuses because of its values. `Transaction.write` raises it, or `pre_commit` if the target
    answers late, before any part of the epoch is prepared.

    `column`: the column with the refused value. `row`: the index of the row in the batch of `write`, or None if
    unknown; then `details` may hold its key, or the row itself as `row`. The caller of the sink adds the place: see
    `placed`.
    """

    def __init__(
        self,
        *,
        expected: str,
        found: str,
        next_step: str,
        column: str | None = None,
        row: int | None = None,
        code: Code = Code.RECORD_REFUSED,
        details: Mapping[str, Detail] | None = None,
    ) -> None:
        self.column = column
        self.row = row
        known = {**({} if column is None else {"column": column}), **(details or {})}
        super().__init__(
            code, expected=expected, found=found, where=in_words(known), next_step=next_step, details=known
        )

    def placed(self, place: Mapping[str, Detail], batch: pa.RecordBatch | None = None) -> TidegateError:
        """The same error with the sink, query, epoch and task of `place`, and with the row's values from the batch that
        was being written.
        """
        row = {} if batch is None or self.row is None else {"row": row_text(batch, self.row)}
        known = {**place, **row, **self.details}
        return TidegateError(
            self.catalogue_entry,
            expected=self.expected,
            found=self.found,
            where=in_words(known),
            next_step=self.next_step,
            details=known,
        )


def one_for_each_row(refused: Iterable[RowRefused]) -> list[RowRefused]:
    """The first refusal of every row, in the order of the rows."""
    found: dict[int, RowRefused] = {}
    for each in refused:
        if each.row is not None:
            found.setdefault(each.row, each)
    return [found[row] for row in sorted(found)]


def place_of(attempt: Attempt) -> dict[str, Detail]:
    """The place of an attempt, as the details of an error."""
    sink = attempt.sink
    return {"sink": sink.sink, "query": f"{sink.job}/{sink.query}", "epoch": attempt.epoch, "task": attempt.task}


def in_words(details: Mapping[str, Detail]) -> str:
    """Details as the place of an error: `sink 'out', query job/q, epoch 7, task 0, column 'id'`."""
    named = [f"{name} {value!r}" if name in _QUOTED else f"{name} {value}" for name, value in details.items()]
    return ", ".join(each for each, name in zip(named, details, strict=True) if name != "row") or "a row"


_QUOTED = frozenset({"sink", "source", "column", "topic", "file"})


def row_text(batch: pa.RecordBatch, row: int) -> str:
    """The values of one row by column, shortened to fit into an error."""
    columns = zip(batch.schema.names, cast("list[Any]", batch.columns), strict=True)
    told = (f"{name}: {_value_text(column[row])}" for name, column in columns)
    return shortened(SECRETS.hide("{" + ", ".join(told) + "}"), DETAIL_AT_MOST)


def _value_text(value: Any) -> str:
    """An Arrow value as text. Python has no value for some: a time after the year 9999, a text that is not UTF-8, a
    time in a zone that Java names and Python does not (`GMT+03:00`).
    """
    try:
        return shortened(repr(value.as_py()), _VALUE_AT_MOST)
    except (ValueError, OverflowError, LookupError):
        return f"({value.type} that Python cannot show)"


_VALUE_AT_MOST = 60
