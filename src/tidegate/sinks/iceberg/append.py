"""One commit that adds files to a table: built from one state of the table, and refused if `main` has moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import AssertTableUUID

from tidegate.core.records import Committable
from tidegate.sinks.data_files import final_path
from tidegate.sinks.files.parts import parts_of
from tidegate.sinks.iceberg import facts
from tidegate.sinks.iceberg.columns import record_of
from tidegate.sinks.iceberg.place import CataloguedTable, in_library
from tidegate.sinks.iceberg.types import flaws_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table


def append(
    place: CataloguedTable,
    table: Table,
    committables: Sequence[Committable],
    summary: Mapping[str, str],
    properties: Callable[[int, int], Mapping[str, str]],
    without: Sequence[str],
) -> None:
    """Add the files of the committables in one snapshot behind `main` of `table`. Raises Overtaken, TableError.

    `summary`: more entries of the snapshot's summary. `properties`: table properties to set in the same commit, for the
    snapshot's id and sequence number. `without`: table properties to remove.
    """
    with in_library():
        transaction: Any = table.transaction()
        producer: Any = transaction.update_snapshot(snapshot_properties=dict(summary)).fast_append()
        # The library writes each manifest under the table's newest partition spec, also if the files have an older one.
        producer.new_manifest_writer = _always(producer.new_manifest_writer, table.specs()[_number_of(committables)])
        for committable in committables:
            for file in data_files_of(committable):
                producer.append_data_file(file)
        producer.commit()
        if given := dict(properties(producer.snapshot_id, table.metadata.next_sequence_number())):
            transaction.set_properties(given)
        if without:
            transaction.remove_properties(*without)
        updates, requirements = transaction._updates, transaction._requirements
    place.commit(table, updates, [*requirements, AssertTableUUID(uuid=table.metadata.table_uuid)])


def _always(make: Callable[[PartitionSpec], Any], wanted: PartitionSpec) -> Callable[[PartitionSpec], Any]:
    def made(spec: PartitionSpec) -> Any:
        return make(wanted)

    return made


def _number_of(committables: Sequence[Committable]) -> int:
    """The partition spec of an epoch: all its tasks had the same sink."""
    return spec_of(committables[0]).spec_id


def unfit(table: Table, committable: Committable) -> str | None:
    """Why the files cannot be files of the table as it is now, in words, or None."""
    spec = spec_of(committable)
    if table.specs().get(spec.spec_id) != spec:
        return f"the table has no partition spec {spec} any more"
    files, now = columns_of(committable), table.schema()
    theirs = {field.field_id: field for field in now.fields}
    mine = {field.field_id: field for field in files.fields}
    if missing := sorted(mine[number].name for number in mine.keys() - theirs.keys()):
        return f"the table lacks {missing}"
    if needed := sorted(theirs[number].name for number in theirs.keys() - mine.keys() if theirs[number].required):
        return f"the table requires {needed}, which the rows lack"
    flaws = (
        flaw
        for number, field in mine.items()
        for flaw in flaws_of(field.field_type, theirs[number].field_type, field.name)
    )
    return next((f"{path!r} is {wanted} in the rows, {held} in the table" for path, wanted, held in flaws), None)


def spec_of(committable: Committable) -> PartitionSpec:
    """The partition spec of the files."""
    return PartitionSpec.model_validate_json(committable.handle["spec"])


def columns_of(committable: Committable) -> Schema:
    """The columns of the files."""
    return Schema.model_validate_json(committable.handle["columns"])


def data_files_of(committable: Committable) -> list[DataFile]:
    """The files of a committable as a manifest names them, under their final names."""
    location, spec, schema = committable.handle["location"], spec_of(committable), columns_of(committable)
    return [
        found.data_file(
            f"{location}/{final_path(committable, part)}",
            part.seal.size_bytes,
            record_of(spec, schema, found.partition),
            spec.spec_id,
        )
        for part, found in zip(parts_of(committable), facts.read(committable.handle["facts"]), strict=True)
    ]
