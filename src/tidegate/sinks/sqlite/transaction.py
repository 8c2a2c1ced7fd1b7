"""The transaction of the SQLite sink, in a task: it writes one stage file."""

from __future__ import annotations

import sqlite3

import pyarrow as pa

from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.sinks.arrow import columns_of
from tidegate.sinks.base import Transaction
from tidegate.sinks.sqlite.stage import insert_rows, new_stage
from tidegate.sinks.sqlite.values import SQLiteRules, values_of
from tidegate.sinks.staging import Seal, StagedFiles


class SQLiteTransaction(Transaction):
    """Writes one attempt's stage file. Creates nothing on disk before the first row."""

    def __init__(self, stage: StagedFiles, attempt: Attempt, rules: SQLiteRules) -> None:
        self._stage = stage
        self._attempt = attempt
        self._rules = rules
        self._file = stage.file(attempt)
        self._connection: sqlite3.Connection | None = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        refused = self._rules.refused(batch)
        if refused:
            raise refused[0]
        if self._connection is None:
            self._connection = self._create(batch.schema)
        columns = [values_of(column) for column in columns_of(self._rules.prepared(batch))]
        insert_rows(self._connection, columns, batch.num_rows)
        self._rows += batch.num_rows

    def pre_commit(self) -> Committable | None:
        if self._connection is None:
            return None
        self._connection.execute("COMMIT")
        self._connection.close()
        self._stage.sync(self._attempt)
        seal = Seal.of(self._file)
        return Committable(
            attempt=self._attempt,
            rows=self._rows,
            digest=committable_digest(self._attempt, seal.checksum),
            handle=seal.as_handle(),
        )

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._file.unlink(missing_ok=True)

    def _create(self, schema: pa.Schema) -> sqlite3.Connection:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.unlink(missing_ok=True)  # a repeated begin of the same attempt
        connection = new_stage(self._file, schema.names)
        connection.execute("BEGIN")
        return connection
