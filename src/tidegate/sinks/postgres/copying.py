"""What the transactions of both protocols have in common: a task copies its rows into one table, and keeps the server's
transaction open until the pre-commit.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack, suppress

import psycopg
import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.sinks.base import Transaction
from tidegate.sinks.postgres.copy_format import HEADER, TRAILER
from tidegate.sinks.postgres.declared import DeclaredPostgresSink
from tidegate.sinks.postgres.server import Session, begin, unusable
from tidegate.sinks.postgres.shape import StageShape
from tidegate.sinks.postgres.table import TargetTable, table_of
from tidegate.sinks.postgres.words import is_of_a_row, refused_row


class CopyingTransaction(Transaction):
    """Copies the rows of one attempt. Connects when the first rows come."""

    def __init__(self, sink: DeclaredPostgresSink, attempt: Attempt) -> None:
        self._sink = sink
        self._attempt = attempt
        self._rules = sink.rules
        self._open, self._copying = ExitStack(), ExitStack()
        self._connection: Session | None = None
        self._copy: psycopg.Copy | None = None
        self._rows = 0

    # --- what a protocol decides -------------------------------------------------------------------------------

    def _before(self, connection: Session) -> None:
        """Called on a new connection, before its transaction begins."""

    @abstractmethod
    def _into(self, connection: Session, shape: StageShape) -> bytes:
        """The COPY that takes rows of this shape."""

    def _look(self, batch: pa.RecordBatch, shape: StageShape) -> None:
        """Called with each batch before it is copied."""

    def _copied(self, data: bytes | memoryview) -> None:
        """Called with all bytes that are copied."""

    @abstractmethod
    def _checksum(self) -> str:
        """What the digest says of the rows."""

    @abstractmethod
    def _make_durable(self, connection: Session, digest: str) -> Mapping[str, str]:
        """End the server's transaction so that its rows survive. Returns the handle."""

    # --- the calls of the protocol -----------------------------------------------------------------------------

    def write(self, batch: pa.RecordBatch) -> None:
        try:
            self._write(batch)
        except psycopg.Error as error:
            raise self._told(error) from None

    def pre_commit(self) -> Committable | None:
        if self._copy is None:
            self.abort()
            return None
        try:
            self._put(TRAILER)
            self._copying.close()
            digest = committable_digest(self._attempt, self._checksum())
            handle = self._make_durable(self._connected(), digest)
            self._open.close()
        except psycopg.Error as error:
            raise self._told(error) from None
        return Committable(attempt=self._attempt, rows=self._rows, digest=digest, handle=dict(handle))

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.close()  # the server rolls back
        with suppress(psycopg.Error):
            self._open.close()

    # --- helpers -----------------------------------------------------------------------------------------------

    def _write(self, batch: pa.RecordBatch) -> None:
        connection = self._connected()
        table = self._rules.table or self._table(connection)
        self._rules = dataclasses.replace(self._rules, table=table)
        refused = self._rules.refused(batch)
        if refused:
            raise refused[0]
        shape = StageShape.of(self._rules, table, batch)
        if shape.missing:
            raise self._without(f"a table without {', '.join(map(repr, shape.missing))}")
        if self._copy is None:
            copy = connection.cursor().copy(self._into(connection, shape))
            self._copy = self._open.enter_context(self._copying).enter_context(copy)
            self._put(HEADER)
        self._look(batch, shape)
        self._put(shape.rows(batch, self._rows))
        self._rows += batch.num_rows

    def _put(self, data: bytes | memoryview) -> None:
        if self._copy is not None:
            self._copied(data)
            self._copy.write(data)

    def _connected(self) -> Session:
        if self._connection is None:
            self._connection = self._open.enter_context(self._sink.server.connected())
            self._before(self._connection)
            begin(self._connection)
        return self._connection

    def _table(self, connection: Session) -> TargetTable:
        found = table_of(connection, self._sink.schema, self._sink.table)
        if found is None:
            raise self._without("no such table")
        return found

    # --- errors ------------------------------------------------------------------------------------------------

    def _told(self, error: psycopg.Error) -> TidegateError:
        if is_of_a_row(error):
            return refused_row(error)
        return unusable(error, self._sink.server, self._sink.uid)

    def _without(self, found: str) -> TidegateError:
        return TidegateError(
            Code.SCHEMA_MISMATCH,
            expected="the table with a column for each column of the rows, as at the start",
            found=found,
            where=f"sink {self._sink.uid!r}: table {self._sink.table!r} in schema {self._sink.schema!r}",
            next_step="put it back, or change select=[...]; then start again: nothing of the epoch is lost",
        )
