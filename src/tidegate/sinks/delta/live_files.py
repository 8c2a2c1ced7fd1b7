"""The data files that are in a snapshot of a table, and which of them may hold a row with one of some keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tidegate.sinks.arrow import fields_of
from tidegate.sinks.value_table import SparkType, kind_of

_BOUNDED = frozenset({SparkType.INTEGER, SparkType.DATE, SparkType.STRING})
"""Types whose least and greatest value each writer gives so that no value of the file is outside of them. The times of
some writers are cut at milliseconds.
"""

_PLAIN = "/!$&'()+,:;=@"
"""Characters that the library leaves as they are in the paths of the log, besides letters, digits and `_.-~`."""

_compute = cast("Any", pc)


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a table.

    `path`: below the table. `in_log`: the same as it stands in the log. `partition`: the values of its partition
    columns, as Arrow's scalars; a null is one of them. `bounds`: the least and the greatest value of columns that have
    them.
    """

    path: str
    in_log: str
    size_bytes: int
    partition: Mapping[str, Any]
    bounds: Mapping[str, tuple[Any, Any]]

    @property
    def is_removable(self) -> bool:
        """True if the library, which encodes a path that it removes, gives the path of the log."""
        return quote(self.path, safe=_PLAIN) == self.in_log and "://" not in self.in_log and self.in_log[:1] != "/"

    def may_hold(self, keys: pa.Table) -> bool:
        """False if no row of this file has one of these keys. `keys`: the columns of the key, without nulls."""
        fits: Any = None
        for name in keys.column_names:
            column = keys[name]
            if name in self.partition:
                within = _compute.equal(column, self.partition[name])
            elif name in self.bounds:
                least, greatest = self.bounds[name]
                within = _compute.and_(_compute.greater_equal(column, least), _compute.less_equal(column, greatest))
            else:
                continue
            fits = within if fits is None else _compute.and_(fits, within)
        return fits is None or bool(_compute.any(fits).as_py())


def live_files(table: DeltaTable, key: Sequence[str] = ()) -> list[LiveFile]:
    """The files of a snapshot, in the order of its log. `key`: columns whose bounds are wanted."""
    schema = schema_of(table)
    actions = pa.table(cast("Any", table.get_add_actions(flatten=True)))
    if not actions.num_rows:
        return []
    partitions = {name: actions[f"partition.{name}"] for name in table.metadata().partition_columns}
    bounded = [
        field.name
        for field in fields_of(schema)
        if field.name in key and field.name not in partitions and kind_of(field.type) in _BOUNDED
    ]
    bounds = {name: (_column(actions, f"min.{name}"), _column(actions, f"max.{name}")) for name in bounded}
    paths = cast("list[str]", actions["path"].to_pylist())
    sizes = cast("list[int]", actions["size_bytes"].to_pylist())
    return [
        LiveFile(
            unquote(in_log),
            in_log,
            size_bytes,
            {name: column[place] for name, column in partitions.items()},
            _bounds_at(bounds, place),
        )
        for place, (in_log, size_bytes) in enumerate(zip(paths, sizes, strict=True))
    ]


def schema_of(table: DeltaTable) -> pa.Schema:
    """The columns of a table, as Arrow's."""
    return pa.schema(cast("Any", table.schema().to_arrow()))


def _bounds_at(bounds: Mapping[str, tuple[Any, Any]], place: int) -> Mapping[str, tuple[Any, Any]]:
    found = {
        name: (least[place], greatest[place])
        for name, (least, greatest) in bounds.items()
        if least is not None and greatest is not None
    }
    return {name: pair for name, pair in found.items() if pair[0].is_valid and pair[1].is_valid}


def _column(actions: pa.Table, name: str) -> Any:
    """None if the files have no such value, or if a nested column has the same name."""
    return actions[name] if actions.column_names.count(name) == 1 else None
