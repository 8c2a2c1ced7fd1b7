"""What a start does with a table of a lake whose columns are not those of the rows: the option `schema=`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum

from tidegate.core.errors import Code, TidegateError


class SchemaChange(Enum):
    """What a start does if the rows have columns that the table lacks."""

    SAME = "same"
    EVOLVE = "evolve"


def lacking_violations(
    missing: Sequence[str], known: Collection[str], schema: SchemaChange, where: str
) -> Iterator[TidegateError]:
    """Violations of the columns that the table lacks. `known`: the columns that it has."""
    by_case = {name.lower(): name for name in known}
    for name in (name for name in missing if name.lower() in by_case):
        yield TidegateError(
            Code.SCHEMA_MISMATCH,
            expected=f"column {by_case[name.lower()]!r} in the case that the table has",
            found=f"{name!r}",
            where=where,
            next_step="give it another name in select=[...]",
        )
    if missing and schema is SchemaChange.SAME:
        yield TidegateError(
            Code.SCHEMA_MISMATCH,
            expected="a table that has each column of the rows",
            found=f"it lacks {sorted(missing)}",
            where=where,
            next_step='give the sink schema="evolve", which adds them, or choose columns in select=[...]',
        )
