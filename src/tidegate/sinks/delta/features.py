"""Tables that the sink must not write to: their own rules bind each writer, and this one does not know them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import parsed

if TYPE_CHECKING:
    from deltalake import DeltaTable

EXPIRES = "delta.setTransactionRetentionDuration"
"""The property after whose time a table forgets application transactions, and so the evidence."""

_FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",  # an append needs no files of changes
        "checkConstraints",
        "columnMapping",
        "deletionVectors",  # files that are added have none
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
        "variantType-preview",
    }
)
"""The features under which rows may be appended, as long as no column and no property makes use of those that bind."""

_DELETION_VECTORS = "deletionVectors"
_AGAINST_REPLACING: Mapping[str, str] = {
    "delta.appendOnly": "a table whose rows may be replaced",
    "delta.enableChangeDataFeed": "a table without a feed of changes: the sink writes no file of changes",
}
_CONSTRAINT = "delta.constraints."
_MAPPING = "delta.columnMapping.mode"
_OF_COLUMNS: Mapping[str, str] = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "CURRENT_DEFAULT": "a column with a default value",
}


def rules_against(table: DeltaTable, where: str) -> Iterator[TidegateError]:
    """Every rule of the table that the sink would break."""
    properties = table.metadata().configuration
    yield from expiring(properties, where)
    protocol = table.protocol()
    if unknown := sorted({*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _FEATURES):
        yield _refusal("a table whose features the sink knows", ", ".join(unknown), where)
    for name in sorted(name for name in properties if name.startswith(_CONSTRAINT)):
        found = f"{name.removeprefix(_CONSTRAINT)}: {properties[name]}"
        yield _refusal("a table without CHECK constraints, which a task cannot test", found, where)
    if properties.get(_MAPPING, "none") != "none":
        yield _refusal("a table whose columns have their own names in its files", f"{_MAPPING}=name or id", where)
    for path, rule in _column_rules(parsed(table.schema().to_json(), dict[str, Any]), ""):
        yield _refusal("columns that take the values of the rows as they are", f"{path!r} is {rule}", where)


def rules_against_rewriting(table: DeltaTable, where: str) -> Iterator[TidegateError]:
    """Every rule of the table under which its files cannot be written again with the same rows."""
    protocol = table.protocol()
    if _DELETION_VECTORS in {*(protocol.writer_features or ()), *(protocol.reader_features or ())}:
        found = f"the feature {_DELETION_VECTORS}: rows that are deleted may be in the files"
        yield _refusal("a table whose files hold the rows of the table, and no others", found, where)


def rules_against_replacing(properties: Mapping[str, str], where: str) -> Iterator[TidegateError]:
    """Every rule of a table with these properties under which no row may be replaced."""
    for name, expected in _AGAINST_REPLACING.items():
        if properties.get(name, "false").lower() == "true":
            yield _refusal(expected, f"{name}=true", where)


def expiring(properties: Mapping[str, str], where: str) -> Iterator[TidegateError]:
    """The violation if evidence in a table with these properties would expire."""
    if EXPIRES in properties:
        yield TidegateError(
            Code.SINK_UNUSABLE,
            expected="a table that keeps application transactions, which prove what is committed",
            found=f"{EXPIRES}={properties[EXPIRES]!r}",
            where=where,
            next_step=f"ALTER TABLE ... UNSET TBLPROPERTIES ('{EXPIRES}'), or give another path",
        )


def _column_rules(struct: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for field in struct["fields"]:
        name = f"{path}{field['name']}"
        for key, rule in _OF_COLUMNS.items():
            if key in field["metadata"]:
                yield name, rule
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _column_rules(field["type"], f"{name}.")


def _refusal(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.SINK_UNUSABLE,
        expected=expected,
        found=found,
        where=where,
        next_step="drop the rule or the feature, write to a table without it and copy from there, or give another path",
    )
