"""The partitions of a table as a program writes them: `day`, `days(ts)`, `bucket(16, id)`, `truncate(4, word)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

_CALL = re.compile(r"(\w+)\(\s*(?:(\d+)\s*,)?\s*(.+?)\s*\)")
_PLAIN: Mapping[str, Callable[[], Transform[Any, Any]]] = {
    "years": YearTransform,
    "months": MonthTransform,
    "days": DayTransform,
    "hours": HourTransform,
}
_NUMBERED: Mapping[str, Callable[[int], Transform[Any, Any]]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
}
WORDS = (*_PLAIN, *_NUMBERED)
"""The transforms of a column."""

_WORD_OF = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


@dataclass(frozen=True, slots=True)
class PartedBy:
    """One partition field: a transform of a column. `word`: as the program has written it."""

    word: str
    column: str
    transform: Transform[Any, Any]

    @property
    def name(self) -> str:
        """The name of the field in a new table."""
        kind = str(self.transform).partition("[")[0]
        return self.column if isinstance(self.transform, IdentityTransform) else f"{self.column}_{kind}"


def parted_by(word: str, columns: Collection[str]) -> PartedBy:
    """The field that a word of `partition_by` means. `columns`: of the rows; a name of one is never a transform."""
    found = None if word in columns else _CALL.fullmatch(word)
    if found is None:
        return PartedBy(word, word, IdentityTransform())
    kind, number, column = found.groups()
    if number is None and kind in _PLAIN:
        return PartedBy(word, column, _PLAIN[kind]())
    if number is not None and kind in _NUMBERED:
        return PartedBy(word, column, _NUMBERED[kind](int(number)))
    return PartedBy(word, word, IdentityTransform())


def spec_for(words: Sequence[str], schema: Schema) -> PartitionSpec:
    """The partition spec of a new table with this schema. The words were checked."""
    fields = [parted_by(word, schema.column_names) for word in words]
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(each.column).field_id,
                field_id=PARTITION_FIELD_ID_START + place,
                transform=each.transform,
                name=each.name,
            )
            for place, each in enumerate(fields)
        )
    )


def words_of(spec: PartitionSpec, schema: Schema) -> list[str]:
    """What a program has to write for a table with this spec."""
    return [
        _word(transform_of(each), schema.find_column_name(each.source_id) or "?")
        for each in spec.fields
        if not isinstance(transform_of(each), VoidTransform)
    ]


def transform_of(field: PartitionField) -> Transform[Any, Any]:
    return cast("Any", field).transform


def normal(words: Sequence[str], columns: Collection[str]) -> list[str]:
    """The words in the form of `words_of`."""
    return [_word(each.transform, each.column) for each in (parted_by(word, columns) for word in words)]


def _word(transform: Transform[Any, Any], column: str) -> str:
    if isinstance(transform, IdentityTransform):
        return column
    kind, _, number = str(transform).removesuffix("]").partition("[")
    return f"{kind}({number}, {column})" if number else f"{_WORD_OF.get(kind, kind)}({column})"
