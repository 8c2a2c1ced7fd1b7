"""Rows that only the server can test: a CHECK, a character set, a text as JSON. For a query with dead letters.

The rows are written into a temporary table of the stage's shape, which ends with its session. Where that fails, each
half is tried, down to the single rows that fail.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pymysql.err import MySQLError

from tidegate.arrays import integers
from tidegate.sinks.mysql.fields import TUPLES
from tidegate.sinks.mysql.names import RESERVED, quoted
from tidegate.sinks.mysql.server import MySQLServer, MySQLSession, run, run_exactly
from tidegate.sinks.mysql.shape import MySQLStageShape
from tidegate.sinks.mysql.table import ENGINE
from tidegate.sinks.mysql.words import is_of_a_row, refused_row
from tidegate.sinks.rows import RowRefused


def tried(server: MySQLServer, shape: MySQLStageShape, batch: pa.RecordBatch, rows: Sequence[int]) -> list[RowRefused]:
    """The refusals of those `rows` of a batch that the server refuses. Leaves nothing in the database.

    Raises MySQLError for what is not the fault of a row.
    """
    table = quoted(f"{RESERVED}trial_{secrets.token_hex(8)}")
    with server.connected() as connection:
        run(connection, f"CREATE TEMPORARY TABLE {table} ({shape.declared()}) ENGINE={ENGINE}")
        return list(_MySQLTrial(connection, table, shape, batch).refused(rows))


@dataclass(frozen=True, slots=True)
class _MySQLTrial:
    connection: MySQLSession
    table: str
    shape: MySQLStageShape
    batch: pa.RecordBatch

    def refused(self, rows: Sequence[int]) -> Iterator[RowRefused]:
        if not rows:
            return
        error = self._error_of(rows)
        if error is None:
            return
        if len(rows) == 1:
            yield refused_row(error, rows[0])
            return
        half = len(rows) // 2
        yield from self.refused(rows[:half])
        yield from self.refused(rows[half:])

    def _error_of(self, rows: Sequence[int]) -> MySQLError | None:
        """The error of these rows together; None if the server takes them."""
        texts = self.shape.rows(self.batch.take(integers(rows, pa.int64())), 0, TUPLES)
        run(self.connection, f"DELETE FROM {self.table}")
        try:
            for begin, behind in texts.parts(_STATEMENT_BYTES):
                run_exactly(self.connection, self.shape.insert_into(self.table) + texts.bytes_of(begin, behind)[:-1])
        except MySQLError as error:
            if is_of_a_row(error):
                return error
            raise
        return None


_STATEMENT_BYTES = 1 << 20
