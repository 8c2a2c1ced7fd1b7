"""Rows that only the server can test: a CHECK, a domain, an enum, a text as JSON. For a query with dead letters.

The rows are copied into a table of the stage's shape, in a transaction that is rolled back. Where that fails, each half
is tried, down to the single rows that fail. (The server's error names a line only in words of its own language.)
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence

import psycopg
import pyarrow as pa

from tidegate.arrays import integers
from tidegate.sinks.postgres.copy_format import HEADER, TRAILER
from tidegate.sinks.postgres.server import Server, Session, run, transaction
from tidegate.sinks.postgres.shape import RESERVED, StageShape
from tidegate.sinks.postgres.words import is_of_a_row, refused_row
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.sql_names import quoted


def tried(
    server: Server, schema: str, shape: StageShape, batch: pa.RecordBatch, rows: Sequence[int]
) -> list[RowRefused]:
    """The refusals of those `rows` of a batch that the server refuses. Leaves nothing in the database.

    Raises psycopg.Error for what is not the fault of a row.
    """
    trial = f"{quoted(schema)}.{quoted(f'{RESERVED}trial_{secrets.token_hex(8)}')}"
    with server.connected() as connection, transaction(connection), connection.transaction(force_rollback=True):
        run(connection, f"CREATE TABLE {trial} ({shape.declared()})")
        if shape.has_long_key(batch):
            run(connection, shape.index_of_keys(trial))
        return list(_Trial(connection, trial, shape, batch).refused(rows))


class _Trial:
    def __init__(self, connection: Session, table: str, shape: StageShape, batch: pa.RecordBatch) -> None:
        self._connection = connection
        self._copy = shape.copy_into(table)
        self._shape = shape
        self._batch = batch

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

    def _error_of(self, rows: Sequence[int]) -> psycopg.Error | None:
        """The error of these rows together; None if the server takes them."""
        data = self._shape.rows(self._batch.take(integers(rows, pa.int64())), 0)
        try:
            with self._connection.transaction(), self._connection.cursor().copy(self._copy) as copy:
                copy.write(b"".join((HEADER, data, TRAILER)))
        except psycopg.Error as error:
            if is_of_a_row(error):
                return error
            raise
        return None
