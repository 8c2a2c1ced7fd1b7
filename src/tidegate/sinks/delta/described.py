"""The description of a Delta sink that a start writes, and the check of its table without the job's program."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidegate.core.health import Finding, failed_by, ok
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.delta.check import place_violations
from tidegate.sinks.delta.declared import DeclaredDeltaSink
from tidegate.sinks.delta.features import rules_against
from tidegate.sinks.delta.place import TABLE_ERRORS, unusable


class DeltaTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a `DeltaSink`: the path alone, because the table and the committables tell the rest."""

    path: str

    def __str__(self) -> str:
        return f"Delta table {self.path}"


def target_of(sink: DeclaredDeltaSink) -> DeltaTarget:
    return DeltaTarget(path=str(sink.place.folder))


def probed(sink: DeclaredDeltaSink, what: str, plan: SinkPlan) -> Sequence[Finding]:
    """The place, the table and its rules. The rows are not checked. Changes nothing."""
    where = f"sink {sink.uid!r}: {sink.place.folder}"
    if violations := list(place_violations(sink, plan, where)):
        return [finding for each in violations for finding in failed_by(what, each)]
    try:
        table = sink.place.table()
    except TABLE_ERRORS as error:
        return list(failed_by(what, unusable(error, sink.place, sink.uid)))
    if table is None:
        return [ok(what, f"{sink.place.folder} has no table yet: a start creates it")]
    if rules := list(rules_against(table, where)):
        return [finding for each in rules for finding in failed_by(what, each)]
    return [ok(what, f"Delta table {sink.place.folder}, version {table.version()}")]
