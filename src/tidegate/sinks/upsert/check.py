"""The checks before a start of an upsert sink: those of the plain sink of its database, and those beside them."""

from __future__ import annotations

from tidegate.core.errors import TidegateError
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.refusals import without_key
from tidegate.sinks.upsert.database import UpsertDatabase


def violations_of(database: UpsertDatabase, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    keyless = [] if database.key else [without_key(database.where)]
    plain = database.inner.check(database.plan_of(plan))
    return [*keyless, *database.violations(plan), *plain]
