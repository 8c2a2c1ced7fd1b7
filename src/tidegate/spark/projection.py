"""One projection for all sinks of a query, so that an epoch's rows are computed once.

Two actions, or a union, would evaluate the state twice. Sinks and state could then differ, and no id would show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.sinks.base import TwoPhaseSink
from tidegate.spark.parsing import UNPARSED
from tidegate.spark.row_types import duplicates, violations


class Projection:
    """The rows of a query for its sinks: one struct column for each distinct (`select`, `where`) of its sinks."""

    def __init__(
        self, sinks: Mapping[str, TwoPhaseSink], fed_by_tasks: str | None = None, *, unparsed: bool = False
    ) -> None:
        """`sinks` by uid. `fed_by_tasks`: the uid of the sink whose rows the tasks make. It has no column, unless
        there are texts that are `unparsed`.
        """
        self._unparsed = unparsed
        self._different: list[TwoPhaseSink] = []
        self._columns: list[Column] | None = None
        self.column_of: dict[str, int | None] = {}
        for uid, sink in sinks.items():
            if uid == fed_by_tasks:
                continue
            plain = next((i for i, other in enumerate(self._different) if _is_plain(other)), None)
            if _is_plain(sink) and plain is not None:
                self.column_of[uid] = plain
            else:
                self.column_of[uid] = len(self._different)
                self._different.append(sink)
        if fed_by_tasks is not None:
            self.column_of[fed_by_tasks] = len(self._different) if unparsed else None

    def apply(self, rows: DataFrame) -> DataFrame:
        """The rows of an epoch as one struct column for each different sink; null if a sink's `where` is not true.

        The expressions are made once: they refer to columns by name, and all epochs have the same names.
        """
        if self._columns is None:
            self._columns = [_struct(rows, sink).alias(f"c{index}") for index, sink in enumerate(self._different)]
            if self._unparsed:
                text = F.col(UNPARSED)
                self._columns = [F.when(text.isNull(), column) for column in self._columns]
                self._columns.append(F.when(text.isNotNull(), F.struct(text.alias("text"))))
        return rows.select(*self._columns)


def sink_schema(rows: DataFrame, sink: TwoPhaseSink, where: str) -> pa.Schema:
    """The Arrow schema of the rows for `sink`.

    Raises SCHEMA_MISMATCH for expressions that Spark cannot resolve, and for types that no sink can write.
    """
    if sink.select is None:
        raise_all(list(duplicates(rows.columns, "columns", where)), where)
    try:
        selected = rows.select(*_columns(rows, sink))
        if sink.where is not None:
            rows.where(cast("Column", sink.where))
        schema = selected.schema
    except (PySparkException, TypeError) as error:
        raise TidegateError(
            Code.SCHEMA_MISMATCH,
            expected=f"`select` and `where` over the columns {', '.join(rows.columns)}",
            found=str(error).split("\n")[0],
            where=where,
            next_step=f"let select= and where= of sink {sink.uid!r} use these columns alone",
        ) from None
    raise_all(list(violations(schema, where)), where)
    return to_arrow_schema(schema, timezone=rows.sparkSession.conf.get("spark.sql.session.timeZone"))


def _is_plain(sink: TwoPhaseSink) -> bool:
    return sink.select is None and sink.where is None


def _struct(rows: DataFrame, sink: TwoPhaseSink) -> Column:
    columns = F.struct(*_columns(rows, sink))
    return columns if sink.where is None else F.when(cast("Column", sink.where), columns)


def _columns(rows: DataFrame, sink: TwoPhaseSink) -> list[Column]:
    if sink.select is None:
        return [F.col(_quoted(name)) for name in rows.columns if name != UNPARSED]
    return [F.col(_quoted(each)) if isinstance(each, str) else cast("Column", each) for each in sink.select]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
