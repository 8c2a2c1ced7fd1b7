"""The checks before a start of an upsert sink: those of the plain sink of its database, and those beside them."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.upsert.database import UpsertDatabase


def violations_of(database: UpsertDatabase, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    plain = database.inner.check(database.plan_of(plan))
    return [*_key(database), *database.violations(plan), *plain]


def _key(database: UpsertDatabase) -> Iterator[TidegateError]:
    if not database.key:
        yield TidegateError(
            Code.KEY_COLUMN,
            expected="key=[...]: the columns that name a row",
            found="none",
            where=database.where,
            next_step="name the columns by which a later row replaces an earlier one",
        )
