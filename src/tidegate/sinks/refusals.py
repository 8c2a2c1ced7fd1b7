"""Errors that several sinks share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt


def not_one_of(option: str, words: Iterable[str], given: str, uid: str, *, instead: str = "") -> TidegateError:
    """An option of a sink has none of its words. `instead`: what may be given besides them, if anything."""
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected=f"{option} one of {', '.join(repr(word) for word in words)}{instead}",
        found=f"{option}={given!r}",
        where=f"sink {uid!r}",
    )


def unfit_for_dead_letters(expected: str, found: str, where: str) -> TidegateError:
    """Arguments of a sink or of its query that do not go together with dead letters."""
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected=expected,
        found=found,
        where=where,
        next_step="change the arguments of the sink or of job.query: see docs/dead-letters.md",
    )


def not_on_a_cluster(where: str) -> TidegateError:
    """The target is on a disk of this machine."""
    return TidegateError(
        Code.SINK_LOCAL_ONLY,
        expected="a session whose tasks run on this machine",
        found="a cluster master",
        where=where,
    )


def same_but_for_case(found: str, where: str) -> TidegateError:
    """Spark treats names that differ only in case as equal. `found`: the names and how often they occur."""
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected="column names that differ in more than case",
        found=found,
        where=where,
        next_step="rename them in select=[...]",
    )


# --- of tables in a database -------------------------------------------------------------------------------


def complete_without_key(where: str) -> TidegateError:
    """Output mode complete gives all rows in each epoch."""
    return TidegateError(
        Code.OUTPUT_MODE,
        expected="mode append or update, or a key",
        found="mode complete without key: every epoch would append all rows again",
        where=where,
        next_step='give key=[...], or use mode="update"',
    )


def without_key(where: str) -> TidegateError:
    """A sink that only replaces rows by key has none."""
    return TidegateError(
        Code.KEY_COLUMN,
        expected="key=[...]: the columns that name a row",
        found="none",
        where=where,
        next_step="name the columns by which a later row replaces an earlier one",
    )


def key_not_in_rows(name: str, names: Sequence[str], where: str) -> TidegateError:
    return TidegateError(
        Code.KEY_COLUMN,
        expected=f"key column {name!r} among the rows' columns",
        found=f"columns {list(names)}",
        where=where,
        next_step="name a column of the rows, or add it in select=[...]",
    )


def key_without_index(key: Sequence[str], where: str, beside: str = "") -> TidegateError:
    """`beside`: what else the index has to be."""
    return TidegateError(
        Code.KEY_COLUMN,
        expected=f"a PRIMARY KEY or UNIQUE index over exactly {list(key)}{beside}",
        found="none",
        where=where,
        next_step="CREATE UNIQUE INDEX over the key columns, or let the sink create the table",
    )


def would_change_values(name: str, wanted: str, kind: object, declared: str, where: str) -> TidegateError:
    """A column of an existing table has a type that does not keep the values. `kind`: of the rows."""
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected=f"column {name!r} of type {wanted} for {kind}",
        found=f"{declared}, which would change the values",
        where=where,
        next_step="cast it in select=[...], or change the table",
    )


def mark_without_key(key: Sequence[str], deleted: str, where: str) -> TidegateError:
    """`deleted` names a column that marks rows to delete, and there is no key of other columns."""
    return TidegateError(
        Code.KEY_COLUMN,
        expected="key=[...] beside deleted=, of other columns: a row is deleted by its key",
        found=f"key={list(key)}, deleted={deleted!r}",
        where=where,
        next_step="give the columns that identify a row as key",
    )


def mark_not_boolean(deleted: str, found: str, where: str) -> TidegateError:
    """`found`: the type of the column `deleted`, or the columns without it."""
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected=f"a boolean column {deleted!r} that is true for a row to delete",
        found=found,
        where=where,
        next_step="make one in select=[...], for example (F.col('op') == 'd').alias('deleted')",
    )


def unfit_column_name(server: str, flaw: str, where: str) -> TidegateError:
    """`server`: whose names they are."""
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected=f"column names that {server} can have",
        found=flaw,
        where=where,
        next_step="give it another name with .alias(...) in select=[...]",
    )


def table_without_columns(missing: Sequence[str], where: str) -> TidegateError:
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected="a table with all columns of the rows",
        found=f"it lacks {list(missing)}",
        where=where,
        next_step=_CHOOSE,
    )


def rows_without_values(missing: Sequence[str], where: str) -> TidegateError:
    """`missing`: columns of the table that the rows do not have, and that must have a value."""
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected="rows with a value for each column that is NOT NULL and has no default",
        found=f"not in the rows: {list(missing)}",
        where=where,
        next_step=_CHOOSE,
    )


def generated_by_table(name: str, where: str) -> TidegateError:
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected=f"rows without {name!r}, which the table generates",
        found="rows that have it",
        where=where,
        next_step="leave it out of select=[...]",
    )


_CHOOSE = "choose or rename the columns with select=[...], or ALTER TABLE"


def committed_meanwhile(name: object, where: str) -> TidegateError:
    """This process was paused, and another one has written the attempt `name` from the journal and committed it."""
    return TidegateError(
        Code.SINK_UNUSABLE,
        expected=f"no evidence of {name}, which is not committed yet",
        found="a row of it: another process has committed the attempt meanwhile",
        where=where,
        next_step="nothing: the rows are there once, and this process ends without writing them again",
    )


def row_conflict(attempt: Attempt, table: str, found: str, remedy: str) -> TidegateError:
    """A table refuses a row of a decided epoch. `remedy`: what to correct."""
    sink, epoch = attempt.sink, attempt.epoch
    return TidegateError(
        Code.ROW_CONFLICT,
        expected=f"rows that table {table!r} takes",
        found=found,
        where=f"sink {sink.sink!r}, query {sink.job}/{sink.query}, epoch {epoch}",
        next_step=f"the epoch is decided and waits; none of its rows is in the table yet. {remedy}; then start again",
        details={"sink": sink.sink, "epoch": epoch},
    )
