"""The staging tables: one for each attempt that wrote a row, in the schema of the target.

    _tidegate_stage_<owner>_g<generation>_e<epoch>_<token>

A stage is created, filled and committed by one transaction of its task, so it is there with all rows or not at all. It
is logged as any table, so it is the journal of its epoch. It is dropped after the epoch is finished, never by the
commit: a backup (pg_dump) locks all tables that it finds, and a commit must not wait for its end.

The stage has the types, the NOT NULL and the CHECK of the target's columns. So the server tests each row in the task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import psycopg
from psycopg import sql

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.sinks.postgres.server import Session, run, transaction
from tidegate.sinks.postgres.shape import StageShape
from tidegate.sinks.sql_names import quoted
from tidegate.sinks.stage_names import StageName, chosen_of, comment_of, pattern_of

_LOG = logging.getLogger("tidegate")


def create_stage(connection: Session, stage: str, shape: StageShape, attempt: Attempt, kind: str = "TABLE") -> None:
    """Create the stage of an attempt inside the open transaction. `stage`: its name in SQL. `kind`: UNLOGGED TABLE if
    the same transaction drops it again.
    """
    # Read once and dropped: a vacuum would only hold it up.
    run(connection, f"CREATE {kind} {stage} ({shape.declared()}) WITH (autovacuum_enabled = false)")
    comment = sql.Literal(comment_of(attempt)).as_string(connection)
    run(connection, f"COMMENT ON TABLE {stage} IS {comment}")


# --- what is there ------------------------------------------------------------------------------------------


def present(connection: Session, schema: str, stages: Sequence[str]) -> set[str]:
    """Those of `stages` that exist."""
    rows = run(connection, f"{_TABLES} AND c.relname = ANY (%s)", (schema, list(stages)))
    return {name for (name,) in rows}


def drop_stages(connection: Session, schema: str, identity: SinkIdentity, chosen: Callable[[StageName], bool]) -> int:
    """Drop the stages of a sink that are `chosen`. Returns their number.

    One that is locked (by a backup) stays: the next call comes to it again.
    """
    names = [name for (name,) in run(connection, f"{_TABLES} AND c.relname LIKE %s", (schema, pattern_of(identity)))]
    return sum(_drop(connection, f"{quoted(schema)}.{quoted(name)}") for name in chosen_of(names, identity, chosen))


_TABLES = """
SELECT c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r'"""


def _drop(connection: Session, stage: str) -> int:
    try:
        with transaction(connection):
            run(connection, "SELECT pg_catalog.set_config('lock_timeout', '100ms', true)")
            run(connection, f"DROP TABLE IF EXISTS {stage}")
    except psycopg.errors.LockNotAvailable:
        _LOG.info("staging table %s is locked by another transaction and stays for now", stage)
        return 0
    return 1
