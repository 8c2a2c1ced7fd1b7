"""The checks before a start of a file sink: the columns, their types, and what its place says of the folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.files.declared import DeclaredFileSink
from tidegate.sinks.files.shape import FileShape
from tidegate.sinks.refusals import same_but_for_case
from tidegate.sinks.value_table import Target, names_in, violations


def violations_of(sink: DeclaredFileSink, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    where = f"sink {sink.uid!r}: {sink.folder}"
    violations = sink.place.violations(plan, where)
    return [*violations, *_mode(plan, where), *row_violations(plan.schema, sink.shape, where)]


def row_violations(schema: pa.Schema, shape: FileShape, where: str) -> Iterator[TidegateError]:
    """Violations, if files of this layout cannot hold rows of this schema so that a reader gets them back unchanged."""
    yield from _duplicate_names(schema, where)
    yield from _partition_columns(schema, shape.partition_by, where)
    yield from _columns(schema, shape, where)


def _mode(plan: SinkPlan, where: str) -> Iterator[TidegateError]:
    if plan.mode == "complete":
        yield TidegateError(
            Code.OUTPUT_MODE,
            expected="mode append or update",
            found="mode complete: every epoch would append all rows again",
            where=where,
            next_step='use mode="update" or "append"',
        )


def _columns(schema: pa.Schema, shape: FileShape, where: str) -> Iterator[TidegateError]:
    fields = [field for field in fields_of(schema) if field.name not in shape.partition_by]
    yield from violations(pa.schema(fields), shape.format.target, where)
    at_most = shape.format.columns_at_most
    if at_most is not None and len(fields) > at_most:
        yield _mismatch(
            f"at most {at_most} column in a {shape.format.name} file",
            f"{len(fields)}: {', '.join(field.name for field in fields)}",
            "choose one column in select=[...], for example with F.concat_ws or F.to_json",
            where,
        )
    if shape.partition_by and not fields:
        yield _mismatch(
            "a column that is not in partition_by=: partition columns stand in the names of folders only",
            "none",
            "add a column, or partition by fewer",
            where,
        )


def _partition_columns(schema: pa.Schema, columns: tuple[str, ...], where: str) -> Iterator[TidegateError]:
    for name in (name for name, times in Counter(columns).items() if times > 1):
        yield _mismatch("each column once in partition_by=", f"{name!r} more than once", "name it once", where)
    types = {field.name: field.type for field in fields_of(schema)}
    for name in dict.fromkeys(columns):
        if name not in types:
            yield _mismatch(
                f"partition_by= columns of the rows: {', '.join(schema.names)}",
                f"{name!r}",
                "name one of these, in the same case",
                where,
            )
            continue
        yield from violations(pa.schema([(name, types[name])]), Target.FOLDER, where)
        if name.startswith("."):
            yield _mismatch(
                "partition columns whose folders are visible to readers",
                f"{name!r} begins with a dot",
                "rename it in select=[...]",
                where,
            )


def _duplicate_names(schema: pa.Schema, where: str) -> Iterator[TidegateError]:
    """Spark treats names that differ only in case as equal, also names of a struct's fields."""
    for place, names in names_in(schema):
        counted = Counter(name.lower() for name in names)
        for name in (name for name, times in counted.items() if times > 1):
            which = f"fields of {place!r}" if place else "columns"
            yield same_but_for_case(f"several {which} named {name!r}", where)


def _mismatch(expected: str, found: str, next_step: str, where: str) -> TidegateError:
    return TidegateError(Code.SCHEMA_MISMATCH, expected=expected, found=found, where=where, next_step=next_step)
