"""The columns of a source that a query uses. A source need not build the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UsedColumns:
    """`whole`: the names of columns that are used as a whole. `fields`: for each other used column, a struct, the names
    of its used fields.
    """

    whole: frozenset[str]
    fields: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def __contains__(self, column: str) -> bool:
        return column in self.whole or column in self.fields

    def __or__(self, other: UsedColumns) -> UsedColumns:
        whole = self.whole | other.whole
        names = (self.fields.keys() | other.fields.keys()) - whole
        none = frozenset[str]()
        return UsedColumns(whole, {name: self.fields.get(name, none) | other.fields.get(name, none) for name in names})
