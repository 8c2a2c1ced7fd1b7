"""The transaction of the PostgreSQL sink, in a task: it creates one staging table, fills it by COPY, and commits it."""

from __future__ import annotations

import dataclasses
import hashlib
from contextlib import ExitStack, suppress

import psycopg
import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.sinks.base import Transaction
from tidegate.sinks.postgres.copy_format import HEADER, TRAILER
from tidegate.sinks.postgres.declared import DeclaredPostgresSink, qualified
from tidegate.sinks.postgres.server import Session, run, transaction, unusable
from tidegate.sinks.postgres.shape import StageShape
from tidegate.sinks.postgres.stages import StageName, create_stage
from tidegate.sinks.postgres.table import TargetTable, table_of
from tidegate.sinks.postgres.words import is_of_a_row, refused_row


class PostgresTransaction(Transaction):
    """Writes one attempt's stage. Connects when the first rows come."""

    def __init__(self, sink: DeclaredPostgresSink, attempt: Attempt) -> None:
        self._sink = sink
        self._attempt = attempt
        self._stage = str(StageName.new(attempt))
        self._open, self._copying = ExitStack(), ExitStack()
        self._test_of_keys: str | None = None
        self._connection: Session | None = None
        self._rules = sink.rules
        self._copy: psycopg.Copy | None = None
        self._checksum = hashlib.sha256()
        self._rows = 0

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
            if self._test_of_keys is not None:
                run(self._connected(), self._test_of_keys)
            self._open.close()  # COMMIT, and the end of the connection
        except psycopg.Error as error:
            raise self._told(error) from None
        return Committable(
            attempt=self._attempt,
            rows=self._rows,
            digest=committable_digest(self._attempt, self._checksum.hexdigest()),
            handle={"stage": self._stage},
        )

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.close()  # the server rolls back
        with suppress(psycopg.Error):
            self._open.close()

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
            stage = qualified(self._sink, self._stage)
            create_stage(connection, stage, shape, self._attempt)
            # The table is of the same transaction, so FREEZE is allowed: no later reader has to mark its rows.
            copy = connection.cursor().copy(shape.copy_into(stage, ", FREEZE true"))
            self._copy = self._open.enter_context(self._copying).enter_context(copy)
            self._put(HEADER)
        if shape.has_long_key(batch):
            self._test_of_keys = shape.index_of_keys(qualified(self._sink, self._stage))
        self._put(shape.rows(batch, self._rows))
        self._rows += batch.num_rows

    def _put(self, data: bytes) -> None:
        if self._copy is not None:
            self._checksum.update(data)
            self._copy.write(data)

    def _connected(self) -> Session:
        if self._connection is None:
            self._connection = self._open.enter_context(self._sink.server.connected())
            self._open.enter_context(transaction(self._connection))
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
