"""Parses texts to rows. Texts that do not parse become dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from tidegate.core.errors import Code, TidegateError
from tidegate.sources.value_parsing import UNPARSED

_PARSERS = {"json": F.from_json, "csv": F.from_csv}
_CORRUPT = "columnNameOfCorruptRecord"


def parsed_or_dead(
    rows: DataFrame,
    column: str,
    schema: str | StructType,
    *,
    format: Literal["json", "csv"] = "json",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Replace the text in `column` by the fields of `schema`, and keep texts that cannot be parsed for the dead
    letters.

    A text that cannot be parsed becomes a row that is written to no sink; `Job.query(..., dead_letters=...)` writes the
    text to the dead letters. A null is no error: all fields of its row are null.

    `options`: those of Spark's from_json and from_csv, except `mode` and `columnNameOfCorruptRecord`. Raises
    OPTION_UNKNOWN for these two, and for another format than JSON and CSV.

    You may filter the rows and add columns. A step that drops the column `_tidegate_unparsed` (a select, an
    aggregation) must come after `only_parsed`; then a second query writes the dead letters.
    """
    given = dict(options or {})
    refused = sorted(given.keys() & {"mode", _CORRUPT})
    if format not in _PARSERS or refused:
        raise TidegateError(
            Code.OPTION_UNKNOWN,
            expected='format="json" or "csv", and options without mode and columnNameOfCorruptRecord',
            found=f"format={format!r}, options {', '.join(refused) or 'as wanted'}",
            where="parsed_or_dead",
            next_step='give format="json" or "csv", and leave the others out of options=',
        )
    fields = cast("StructType", StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    whole = StructType([*fields.fields]).add(UNPARSED, StringType())
    # from_csv takes a schema as text only.
    ddl = ", ".join(f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in whole.fields)
    parse = cast("Any", _PARSERS[format])
    row = parse(F.col(_quoted(column)).cast("string"), ddl, {**given, "mode": "PERMISSIVE", _CORRUPT: UNPARSED})
    held = "_tidegate_row"
    others = [F.col(_quoted(name)) for name in rows.columns if name != column]
    parsed = rows.select(row.alias(held), *others)
    names = [F.col(held)[field.name].alias(field.name) for field in fields.fields]
    return parsed.select(F.col(held)[UNPARSED].alias(UNPARSED), *others, *names)


def only_parsed(rows: DataFrame) -> DataFrame:
    """The parsed rows of `parsed_or_dead`, for a query with state, which cannot carry the other rows. A second query
    over the same rows, with `sinks=[]` and dead letters, writes the texts that did not parse.
    """
    return rows.where(F.col(UNPARSED).isNull()).drop(UNPARSED)


def has_unparsed(rows: DataFrame, *, to_dead_letters: bool, where: str) -> bool:
    """True if `rows` include texts that did not parse. Raises OPTION_UNKNOWN if these would be lost, or would reach the
    sinks as rows of nulls.
    """
    if UNPARSED in rows.columns:
        if to_dead_letters:
            return True
        found = "none"
    else:
        plan = str(cast("Any", rows)._jdf.queryExecution().analyzed().toString())
        if UNPARSED not in plan or f"isnull({UNPARSED}" in plan:
            return False
        found = "a step that leaves them out"
    raise TidegateError(
        Code.OPTION_UNKNOWN,
        expected="dead letters for the texts that do not parse",
        found=found,
        where=where,
        next_step=f"give the query dead_letters=, and keep the column {UNPARSED}; or take only_parsed(rows), and a"
        " second query for the dead letters: see docs/dead-letters.md",
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
