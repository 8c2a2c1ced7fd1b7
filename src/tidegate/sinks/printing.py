"""The console as a sink."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Committable, Evidence
from tidegate.sinks.arrow import columns_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.json_lines import json_text, json_values
from tidegate.sinks.promises import Promise
from tidegate.sinks.row_values import InvalidText, option_of, refused_texts, with_valid_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.value_table import Target, violations
from tidegate.sinks.write_ahead import DecidedEpoch, WriteAheadSink


class PrintSink(WriteAheadSink):
    """Prints the rows of each epoch as a table at the commit: a row is shown once, when it is final.

    Shows at most `limit` rows of an epoch; the title shows the full number. A cell holds the whole value. In a terminal
    a long value takes several lines; elsewhere the table is as wide as it needs to be. A null is an empty cell. A text
    with invisible parts (an empty text, control characters, spaces at an end) stands in quotes, as in JSON.

    A row with a text that is not UTF-8 is refused (`invalid_text="refuse"`), or each such part becomes U+FFFD
    ("replace"). A terminal cannot prove which rows it has shown. So an epoch whose printing was interrupted is shown
    again after the restart.
    """

    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            readers_see="each epoch's rows as a table, once they are final",
            after_crash="printed again, except at-most-once",
        ),
    )

    def __init__(
        self,
        uid: str,
        *,
        limit: int = 20,
        invalid_text: str = "refuse",
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.limit = limit
        self.invalid_text = option_of(InvalidText, "invalid_text", invalid_text, uid)

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return list(violations(plan.schema, Target.JSON, f"sink {self.uid!r}"))

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return one_for_each_row(refused_texts(batch, self.invalid_text))

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        shown = list(islice(_rows(batch.slice(0, self.limit) for batch in batches), self.limit))
        told = f"{epoch.rows} rows" if len(shown) == epoch.rows else f"{len(shown)} of {epoch.rows} rows"
        console = Console(markup=False, emoji=False, highlight=False)
        unseen = _NOT_ASCII if console.options.ascii_only else _UNSEEN
        table = Table()
        for name in shown[0] if shown else ():
            table.add_column(_cell(name, unseen), overflow="fold")
        for row in shown:
            table.add_row(*(_cell(value, unseen) for value in row.values()))
        if not console.is_terminal:
            console.width = console.measure(table, options=console.options.update(max_width=_ANY_WIDTH)).maximum
        console.print(f"{epoch.identity.query} / {self.uid}, epoch {epoch.number}: {told}", soft_wrap=True)
        console.print(table)

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.ABSENT


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
    for batch in batches:
        columns = [json_values(column) for column in columns_of(with_valid_texts(batch))]
        for row in zip(*columns, strict=True):
            yield dict(zip(batch.schema.names, row, strict=True))


_ANY_WIDTH = 2**31 - 1
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that a terminal executes, or that end a line."""
_NOT_ASCII = re.compile("[^ -~]")


def _cell(value: object, unseen: re.Pattern[str]) -> str:
    """One of `json_values` for a human reader: JSON, but a fully visible text stands without quotes."""
    if value is None:
        return ""
    told = json_text(value)
    if not told.startswith('"'):
        return unseen.sub(_escaped, told)
    text = value if isinstance(value, str) else told[1:-1]
    as_it_is = text and text == text.strip() and not text.startswith('"') and not unseen.search(text)
    return text if as_it_is else unseen.sub(_escaped, told)


def _escaped(found: re.Match[str]) -> str:
    """JSON's escape of a character: its one or two units of UTF-16."""
    units = found.group().encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
