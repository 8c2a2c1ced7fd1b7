"""The target table as the server describes it: columns, constraints of single rows, unique indexes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.sinks.postgres.server import Session, run


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column. `type`: the name of its type in `pg_type`, of the base type for a domain. `declared`: the type as SQL
    writes it. `length`: most characters of a varchar. `element` and `element_oid`: of an array.

    `not_null`: it takes no NULL. `fills_itself`: it has a default or is an identity. `generated`: rows must not have
    it.
    """

    name: str
    type: str
    declared: str
    type_modifier: int
    not_null: bool
    fills_itself: bool = False
    generated: bool = False
    is_enum: bool = False
    is_domain: bool = False
    element: str = ""
    element_oid: int = 0
    collation: str = ""

    @property
    def length(self) -> int | None:
        return self.type_modifier - 4 if self.type == "varchar" and self.type_modifier >= 0 else None


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK of the table: its expression, and the columns in it."""

    expression: str
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class TargetTable:
    """`kind`: the relation's kind in `pg_class`. `forgetful`: the table or partition, if any, that commits apart from
    its database or does not survive a crash. `unique`: the columns of each unique index without a condition.
    """

    kind: str
    forgetful: str | None
    columns: tuple[TableColumn, ...]
    checks: tuple[Check, ...] = ()
    unique: tuple[frozenset[str], ...] = ()

    @property
    def is_table(self) -> bool:
        return self.kind in ("r", "p")

    def column(self, name: str) -> TableColumn | None:
        return next((each for each in self.columns if each.name == name), None)

    def of(self, names: Sequence[str]) -> list[TableColumn]:
        """The columns of these names, in their order. Unknown names are left out."""
        return [column for name in names if (column := self.column(name)) is not None]

    def checks_on(self, names: Sequence[str]) -> list[str]:
        """The expressions of the checks that need no other columns than these."""
        return [each.expression for each in self.checks if each.columns and each.columns <= set(names)]


def table_of(connection: Session, schema: str, table: str) -> TargetTable | None:
    """The description of a table; None if it does not exist."""
    found = run(connection, _RELATION, (schema, table)).fetchone()
    if found is None:
        return None
    oid, kind, forgetful = found
    columns = tuple(TableColumn(*row) for row in run(connection, _COLUMNS, (oid,)))
    checks = tuple(Check(expression, frozenset(names)) for expression, names in run(connection, _CHECKS, (oid,)))
    unique = tuple(frozenset(names) for (names,) in run(connection, _UNIQUE, (oid,)))
    return TargetTable(kind, forgetful, columns, checks, unique)


_RELATION = """
SELECT c.oid, c.relkind::text, (
    SELECT pg_catalog.min(p.relname::text) FROM pg_catalog.pg_class p
    WHERE (p.relpersistence <> 'p' OR p.relkind = 'f')
        AND (p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(c.oid))))
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""
_COLUMNS = """
SELECT a.attname, t.typname, pg_catalog.format_type(a.atttypid, a.atttypmod),
    CASE o.typtype WHEN 'd' THEN o.typtypmod ELSE a.atttypmod END,
    a.attnotnull, a.atthasdef OR a.attidentity <> '' OR o.typdefault IS NOT NULL,
    a.attgenerated <> '' OR a.attidentity = 'a',
    t.typtype = 'e', o.typtype = 'd', coalesce(e.typname, ''), coalesce(e.oid, 0)::bigint,
    CASE WHEN a.attcollation NOT IN (0, o.typcollation)
        THEN pg_catalog.quote_ident(cn.nspname) || '.' || pg_catalog.quote_ident(co.collname) ELSE '' END
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type o ON o.oid = a.atttypid
JOIN pg_catalog.pg_type t ON t.oid = CASE o.typtype WHEN 'd' THEN o.typbasetype ELSE o.oid END
LEFT JOIN pg_catalog.pg_type e ON t.typcategory = 'A' AND e.oid = t.typelem
LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_CHECKS = """
SELECT pg_catalog.pg_get_expr(c.conbin, c.conrelid), (
    SELECT coalesce(pg_catalog.array_agg(a.attname::text), '{}') FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey))
FROM pg_catalog.pg_constraint c
WHERE c.conrelid = %s AND c.contype = 'c'
    AND coalesce(pg_catalog.to_jsonb(c) ->> 'conenforced', 'true') = 'true' ORDER BY c.conname
"""
"""PostgreSQL 18 has checks that are not enforced."""
_UNIQUE = """
SELECT pg_catalog.array_agg(a.attname::text) FROM pg_catalog.pg_index i
CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(i.indkey::int2[]), pg_catalog.unnest(i.indcollation::oid[]))
    WITH ORDINALITY k(number, sorted_by, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
    AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid HAVING pg_catalog.bool_and(k.sorted_by IS NULL OR k.sorted_by IN (0, a.attcollation))
"""
"""Only an index that is checked at once can find the row to replace, and one with the collation of its column agrees
with DISTINCT about equal keys."""
