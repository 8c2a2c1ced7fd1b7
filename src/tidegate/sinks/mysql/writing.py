"""What both protocols do in a task: they connect when the first rows come, write them, and tell errors."""

from __future__ import annotations

import dataclasses
import hashlib
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack

import pyarrow as pa
from pymysql.err import MySQLError

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.sinks.base import Transaction
from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.loading import Loader
from tidegate.sinks.mysql.server import TASK_IDLE_SECONDS, MySQLSession, unusable
from tidegate.sinks.mysql.shape import MySQLStageShape
from tidegate.sinks.mysql.table import MySQLTable, table_of
from tidegate.sinks.mysql.words import is_of_a_row, refused_row


class WritingTransaction(Transaction):
    """Writes one attempt's rows through a connection of its own."""

    idle_seconds = TASK_IDLE_SECONDS
    sends_files = False

    def __init__(self, sink: DeclaredMySQLSink, attempt: Attempt) -> None:
        self._sink = sink
        self._attempt = attempt
        self._open = ExitStack()
        self._connection: MySQLSession | None = None
        self._loader: Loader | None = None
        self._rules = sink.rules
        self._content = hashlib.sha256()
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        try:
            self._write(batch)
        except MySQLError as error:
            raise self._told(error) from None

    def pre_commit(self) -> Committable | None:
        if self._loader is None:
            self.abort()
            return None
        digest = committable_digest(self._attempt, self._checksum())
        try:
            handle = self._make_durable(self._loader.connection, digest)
            self._open.close()
        except MySQLError as error:
            raise self._told(error) from None
        return Committable(attempt=self._attempt, rows=self._rows, digest=digest, handle=dict(handle))

    def abort(self) -> None:
        self._open.close()

    # --- what the protocols do differently ---------------------------------------------------------------------

    @abstractmethod
    def _begin(self, connection: MySQLSession, shape: MySQLStageShape) -> Loader:
        """Begin the transaction, and prepare the place of its rows."""

    @abstractmethod
    def _make_durable(self, connection: MySQLSession, digest: str) -> Mapping[str, str]:
        """Make the rows durable. Returns the handle of the committable."""

    @abstractmethod
    def _checksum(self) -> str:
        """What the digest says of the rows."""

    def _shaped(self, shape: MySQLStageShape) -> MySQLStageShape:
        return shape

    # --- rows --------------------------------------------------------------------------------------------------

    def _write(self, batch: pa.RecordBatch) -> None:
        connection = self._connected()
        table = self._rules.table or self._table(connection)
        self._rules = dataclasses.replace(self._rules, table=table)
        refused = self._rules.refused(batch)
        if refused:
            raise refused[0]
        shape = self._shaped(MySQLStageShape.of(self._rules, table, batch))
        if shape.missing:
            raise self._without(f"a table without {', '.join(map(repr, shape.missing))}")
        if self._loader is None:
            self._loader = self._begin(connection, shape)
        self._loader.put(shape, batch, self._rows, self._content)
        self._rows += batch.num_rows

    def _connected(self) -> MySQLSession:
        if self._connection is None:
            opened = self._sink.server.connected(idle_seconds=self.idle_seconds, sends_files=self.sends_files)
            self._connection = self._open.enter_context(opened)
        return self._connection

    def _table(self, connection: MySQLSession) -> MySQLTable:
        found = table_of(connection, self._sink.table)
        if found is None:
            raise self._without("no such table")
        return found

    # --- errors ------------------------------------------------------------------------------------------------

    def _told(self, error: MySQLError) -> TidegateError:
        if is_of_a_row(error):
            return refused_row(error)
        return unusable(error, self._sink.server, self._sink.uid)

    def _without(self, found: str) -> TidegateError:
        return TidegateError(
            Code.SCHEMA_MISMATCH,
            expected="the table as at the start, with all columns of the rows",
            found=found,
            where=f"sink {self._sink.uid!r}: table {self._sink.table!r}, {self._sink.server}",
            next_step="put it back, or change select=[...], and start again: the epoch is computed again",
        )
