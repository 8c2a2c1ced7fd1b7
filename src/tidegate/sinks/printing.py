"""The console as a sink."""

from __future__ import annotations

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
from tidegate.sinks.row_values import InvalidText, option_of, refused_texts, with_valid_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.value_table import Target, violations
from tidegate.sinks.write_ahead import DecidedEpoch, WriteAheadSink


class PrintSink(WriteAheadSink):
    """Prints each epoch's rows as a table when it is committed: so a row is shown once, when it is final.

    At most `limit` rows an epoch; the title says how many there are. A row with a text that is not UTF-8 is refused
    (`invalid_text="refuse"`), or its text gets U+FFFD ("replace"). A terminal cannot prove what it has shown: an
    epoch that was being printed when the process died is shown again after the restart.
    """

    levels: ClassVar[frozenset[Level]] = frozenset(Level)

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
        table = Table()
        for name in shown[0] if shown else ():
            table.add_column(name)
        for row in shown:
            table.add_row(*row.values())
        console = Console(markup=False, highlight=False)
        console.print(f"{epoch.identity.query} / {self.uid}, epoch {epoch.number}: {told}", soft_wrap=True)
        console.print(table)

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.ABSENT


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, str]]:
    for batch in batches:
        columns = [json_values(column) for column in columns_of(with_valid_texts(batch))]
        for row in zip(*columns, strict=True):
            texts = ("" if value is None else json_text(value) for value in row)
            yield dict(zip(batch.schema.names, texts, strict=True))
