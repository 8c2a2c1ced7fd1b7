"""What every file format is to the rows it takes, and the refusal of a row."""

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
        """What was taken and is not in the file yet, about, as Arrow holds it."""
        ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. Their values have been looked at (`Format.refuses`): none is refused here."""

    def flush(self) -> None:
        """Write what is held back. The file goes on."""

    def close(self) -> None:
        """Write what is still held back and the format's end, if it has one. Does not close the file."""

    def abandon(self) -> None:
        """Give up without an end, also after an error."""


class StraightWriter:
    """The half of a writer that holds nothing back and has no end to write."""

    held_bytes = 0

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class RowRefused(TidegateError):
    """A row that a sink cannot take, because of its values. It is raised by `Transaction.write`, or by `pre_commit`
    where the target answers late, before anything of the epoch is prepared.

    `column` is the column at fault, `row` the index of the row in the batch that `write` was given, None where that is
    not known (then `details` may have its key, or the row itself as `row`). The caller of the sink adds where it
    was: see `placed`.
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
        """The same with the sink, query, epoch and task that `place` names, and with the row's values, out of the batch
        that was being written."""
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
    """Where an attempt is, as the details of an error."""
    sink = attempt.sink
    return {"sink": sink.sink, "query": f"{sink.job}/{sink.query}", "epoch": attempt.epoch, "task": attempt.task}


def in_words(details: Mapping[str, Detail]) -> str:
    """Details as the place of an error: `sink 'out', query job/q, epoch 7, task 0, column 'id'`."""
    named = [f"{name} {value!r}" if name in _QUOTED else f"{name} {value}" for name, value in details.items()]
    return ", ".join(each for each, name in zip(named, details, strict=True) if name != "row") or "a row"


_QUOTED = frozenset({"sink", "source", "column", "topic", "file"})


def row_text(batch: pa.RecordBatch, row: int) -> str:
    """The values of one row by column, each of them and all together short enough for an error."""
    columns = zip(batch.schema.names, cast("list[Any]", batch.columns), strict=True)
    told = (f"{name}: {_value_text(column[row])}" for name, column in columns)
    return shortened(SECRETS.hide("{" + ", ".join(told) + "}"), DETAIL_AT_MOST)


def _value_text(value: Any) -> str:
    """A value of Arrow's, also one that Python has no value for: a time after the year 9999, text that is not UTF-8, a
    time in a zone that Java names and Python does not (`GMT+03:00`)."""
    try:
        return shortened(repr(value.as_py()), _VALUE_AT_MOST)
    except (ValueError, OverflowError, LookupError):
        return f"({value.type} that Python cannot show)"


_VALUE_AT_MOST = 60
