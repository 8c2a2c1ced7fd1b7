"""The description of an Iceberg sink that a start writes, and the check of its table without the job's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.core.health import Finding, failed_by, ok
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.iceberg.check import location_violations, rules_against
from tidegate.sinks.iceberg.declared import DeclaredIcebergSink
from tidegate.sinks.iceberg.place import TableError, unusable


class IcebergTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an `IcebergSink`. `left_out`: the names of catalog properties that may hold secrets."""

    table: str
    catalog: str
    catalog_properties: dict[str, str]
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"Iceberg table {self.table} in catalog {self.catalog!r}"


def target_of(sink: DeclaredIcebergSink) -> IcebergTarget:
    shown = sink.place.shown()
    return IcebergTarget(
        table=".".join(sink.place.table),
        catalog=sink.place.catalog,
        catalog_properties=shown,
        left_out=tuple(sorted(sink.place.properties.keys() - shown.keys())),
    )


def properties_of(target: IcebergTarget, put_in: Mapping[str, str]) -> dict[str, str]:
    """The properties of the catalog, together with those that were left out."""
    return {**target.catalog_properties, **{name: put_in[name] for name in target.left_out}}


def probed(sink: DeclaredIcebergSink, what: str, plan: SinkPlan) -> Sequence[Finding]:
    """The catalog, the table, its place and its rules. The rows are not checked. Changes nothing."""
    where = f"sink {sink.uid!r}: {sink.place}"
    try:
        table = sink.place.read()
    except TableError as error:
        return list(failed_by(what, unusable(str(error), sink.place, sink.uid)))
    location = sink.place.planned_location() if table is None else table.location()
    against = list(location_violations(location, plan, where))
    if table is not None:
        against += rules_against(table, where)
    if against:
        return [finding for each in against for finding in failed_by(what, each)]
    if table is None:
        return [ok(what, f"{sink.place} does not exist yet: a start creates it")]
    return [ok(what, f"Iceberg table {sink.place}, {len(table.metadata.snapshots)} snapshots, at {table.location()}")]
