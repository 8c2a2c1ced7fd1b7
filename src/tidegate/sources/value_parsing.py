"""Parses the values of records in the tasks, many at once, into Arrow columns.

A parser takes a batch of values as a whole. If one of them does not parse, the batch is divided until the values that
do not parse are alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, cast

import pyarrow as pa

from tidegate.arrays import binaries, integers

_arrow = cast("Any", pa)
VALUE = "value"
"""The column of a record's value."""

UNPARSED = "_tidegate_unparsed"
"""The column with the text of a row that does not parse; null in all others. `Job.query` removes it."""


class UnparsedValues(Enum):
    """The treatment of values that do not parse: fail the epoch, give a null, or also keep the text for the dead
    letters.
    """

    REFUSE = "refuse"
    NULL = "null"
    DEAD_LETTERS = "dead-letters"


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A value that does not parse. `row`: its index among the values. `reason`: the reason, from the parser."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedValues:
    """One row for each value, null for a null and for a value that does not parse."""

    column: pa.Array[Any]
    unparsed: Sequence[Unparsed]


class ValueParser(ABC):
    """Parses the values of records. It is pickled to the tasks."""

    @abstractmethod
    def columns(self, values: Sequence[bytes]) -> pa.Array[Any]:
        """One row for each value. Raises ValueError (pyarrow's errors are of this type) if one does not parse."""

    @abstractmethod
    def only(self, fields: frozenset[str]) -> ValueParser:
        """The same parser, with nulls in all other fields."""

    @abstractmethod
    def nulls(self, count: int) -> pa.Array[Any]:
        """A column of nulls."""

    def suspects(self, values: Sequence[bytes]) -> frozenset[int]:
        """The indexes of values that probably do not parse: a hint, so that they are not searched for by halves."""
        return frozenset()

    def parsed(self, values: Sequence[bytes | None]) -> ParsedValues:
        """The rows of `values`, in their order."""
        whole = [row for row, value in enumerate(values) if value is not None]
        done: list[tuple[pa.Array[Any], list[int]]] = []
        bad: list[Unparsed] = []
        waiting = [whole]
        while waiting:
            rows = waiting.pop()
            given = [value for row in rows if (value := values[row]) is not None]
            try:
                done.append((self.columns(given) if rows else self.nulls(0), rows))
            except ValueError as error:
                if len(rows) == 1:
                    bad.append(Unparsed(rows[0], _reason(error)))
                elif rows is whole and (odd := self.suspects(given)):
                    waiting += [[rows[each]] for each in odd]
                    waiting.append([row for place, row in enumerate(rows) if place not in odd])
                else:
                    middle = len(rows) // 2
                    waiting += [rows[:middle], rows[middle:]]
        if len(whole) == len(values) and len(done) == 1 and not bad:
            return ParsedValues(done[0][0], ())
        return ParsedValues(self._in_place(done, len(values)), sorted(bad, key=lambda each: each.row))

    def _in_place(self, done: Sequence[tuple[pa.Array[Any], list[int]]], count: int) -> pa.Array[Any]:
        """`count` rows: those of the arrays at their places, and nulls at all others."""
        places = [place for _, rows in done for place in rows]
        indexes = [len(places)] * count
        for row, place in enumerate(places):
            indexes[place] = row
        together = _arrow.concat_arrays([*(column for column, _ in done), self.nulls(1)])
        return together.take(integers(indexes, pa.int64()))


@dataclass(frozen=True, slots=True)
class ValueParsing:
    """How a source parses the values of its records. It is pickled to the tasks. `expected`, `next_step`: of the error
    for a value that does not parse.
    """

    parser: ValueParser
    unparsed: UnparsedValues
    expected: str = "a value that parses by value="
    next_step: str = (
        'correct the schema; or give the format unparsed="null", or unparsed="dead-letters" and the query'
        " dead_letters=; then start again: the epoch's input comes again"
    )

    def only(self, fields: frozenset[str]) -> ValueParsing:
        """The same, for a query that uses only these fields.

        A value that does not parse must not depend on the fields that a query uses: two queries over one source would
        differ in it, and one of them may be the query that writes the dead letters. So only a parsing that refuses
        leaves fields out.
        """
        return replace(self, parser=self.parser.only(fields)) if self.unparsed is UnparsedValues.REFUSE else self

    def columns(self, values: Sequence[bytes | None], parsed: ParsedValues) -> Mapping[str, pa.Array[Any]]:
        """The columns that take the place of the column of values: `value`, and the texts that do not parse."""
        if self.unparsed is not UnparsedValues.DEAD_LETTERS:
            return {VALUE: parsed.column}
        texts: list[bytes | None] = [None] * len(values)
        for each in parsed.unparsed:
            texts[each.row] = (values[each.row] or b"").decode("utf-8", "backslashreplace").encode()
        return {VALUE: parsed.column, UNPARSED: binaries(texts, pa.string())}


def _reason(error: ValueError) -> str:
    """The parser's reason, in one line, without the number of the row: the value is alone."""
    return str(error).split("\n")[0].removeprefix("JSON parse error: ").removesuffix(" in row 0")
