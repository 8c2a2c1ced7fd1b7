"""What an error of the server means, by its SQLSTATE, not by its text.

Source: postgresql.org/docs/current/errcodes-appendix.html.
"""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from tidegate.core.redaction import SECRETS
from tidegate.core.telling import DETAIL_AT_MOST, shortened
from tidegate.sinks.rows import RowRefused


def told(error: psycopg.Error) -> str:
    """The server's own words: message, detail and SQLSTATE, without secrets."""
    message = error.diag.message_primary or str(error).strip() or type(error).__name__
    parts = [message, error.diag.message_detail, error.sqlstate and f"(SQLSTATE {error.sqlstate})"]
    return shortened(SECRETS.hide(" ".join(part for part in parts if part)), DETAIL_AT_MOST)


def is_of_a_row(error: psycopg.Error) -> bool:
    """True if the server refuses a value or a row, so that every try with these rows would end the same."""
    state = error.sqlstate or ""
    return state[:2] in _OF_A_ROW or state in _OF_A_ROW


def refused_row(error: psycopg.Error, row: int | None = None) -> RowRefused:
    """The refusal of a row by the server. `row`: its index, if it is known; otherwise the error tells what it can."""
    context = (error.diag.context or "").splitlines()
    place = f"; {context[0]}" if context and row is None else ""
    return RowRefused(
        row=row,
        expected="a row that the table's own constraints and types allow",
        found=f"{told(error)}{place}",
        next_step="change the values in select=[...], leave such rows out with where=, give the query dead_letters=, or"
        " ALTER TABLE; then start again",
    )


def remedy_of(error: psycopg.Error) -> str:
    """The next step after an error."""
    state = error.sqlstate or _NO_ANSWER
    return _REMEDIES.get(state) or _REMEDIES.get(state[:2]) or _REMEDIES[_ANY]


_OF_A_ROW = frozenset({"21", "22", "23", "54", "P0001"})
"""Cardinality, data, integrity and size (an index entry that is too long); P0001: a trigger refuses."""

_ANY = "any"
_NO_ANSWER = "08"
_CONNECT = (
    "correct what the message names: the server is down (start it), host, port, user, password, dbname or TLS options"
    " of the sink are others, pg_hba.conf keeps it out, or all connections are taken (raise max_connections, or put a"
    " pooler in between); then start again: nothing is lost"
)
"""libpq gives no SQLSTATE for a connection that did not come about."""
_RIGHTS = (
    "GRANT USAGE, CREATE ON the schema, and SELECT, INSERT, UPDATE, DELETE ON the table and on _tidegate_ledger and"
    " _tidegate_owners there, to the sink's user; then start again"
)
_REMEDIES: Mapping[str, str] = {
    _ANY: "correct the reason that the message names, then start again",
    _NO_ANSWER: _CONNECT,
    "57": _CONNECT,
    "3F": "CREATE SCHEMA, or give the sink another `schema`, then start again",
    "42501": _RIGHTS,
    "42P01": "create the table again, or start again: a start creates what is missing",
    "42703": "ALTER TABLE so that it has the rows' columns again, or change select=[...], then start again",
    "53100": "make space on the server's disk, then start again",
    "53300": _CONNECT,
    "0A000": "give the sink protocol='staged' if it is about PREPARE (a trigger uses a temporary table or NOTIFY) or"
    " row security; otherwise correct the reason that the message names; then start again",
    "53200": "if it is about prepared transactions, raise max_prepared_transactions on the server (each task with rows"
    " of an epoch needs one), let epochs have fewer tasks, end what pg_prepared_xacts lists and is not needed, or give"
    " the sink protocol='staged'; otherwise give the server more memory; then start again",
    "55000": "set max_prepared_transactions on the server if it is about prepared transactions, or give the sink"
    " protocol='staged'; otherwise correct the reason that the message names; then start again",
    "55P03": "another transaction holds a lock on the table, or the same value of a unique index: end it"
    " (pg_stat_activity, pg_locks and pg_prepared_xacts show it)",
    "25006": "connect to the primary: this server is a standby, or is read-only",
}
