"""Rows into a staging table: by multi-row INSERTs, or by LOAD DATA LOCAL where both sides allow it.

LOAD DATA LOCAL spares the server to parse SQL. But its errors are warnings, in strict mode too: it has no way to
stop the file (dev.mysql.com/doc/refman/8.4/en/load-data.html). So a part with any warning is taken back and written
again by INSERT, which tells the truth.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from tidegate.sinks.mysql.fields import LINES, TUPLES, RowTexts
from tidegate.sinks.mysql.server import MySQLServer, MySQLSession, run, run_exactly, variables
from tidegate.sinks.mysql.shape import MySQLStageShape

_STATEMENT_BYTES = 1 << 20
"""Of an INSERT with several rows; more is not faster."""
_FILE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Loader:
    """Writes into `stage`, its name in SQL. `sends_files`: by LOAD DATA LOCAL."""

    connection: MySQLSession
    stage: str
    sends_files: bool

    @classmethod
    def of(cls, connection: MySQLSession, server: MySQLServer, stage: str) -> Loader:
        allowed = server.loads_files and variables(connection, "local_infile").get("local_infile") == "ON"
        return cls(connection, stage, allowed)

    def put(self, shape: MySQLStageShape, batch: pa.RecordBatch, first: int, checksum: Any) -> None:
        """Write the rows of a batch inside the open transaction. `first`: the number of its first row.

        `checksum` takes the content. Raises MySQLError if the server refuses a row, or changes a value.
        """
        rows = shape.rows(batch, first, LINES if self.sends_files else TUPLES)
        checksum.update(rows.data)
        if self.sends_files:
            self._load(shape, batch, first, rows)
        else:
            self._insert(shape, rows)

    def _insert(self, shape: MySQLStageShape, rows: RowTexts) -> None:
        head = shape.insert_into(self.stage)
        for begin, behind in rows.parts(_STATEMENT_BYTES):
            run_exactly(self.connection, head + rows.bytes_of(begin, behind)[:-1])

    def _load(self, shape: MySQLStageShape, batch: pa.RecordBatch, first: int, rows: RowTexts) -> None:
        for begin, behind in rows.parts(_FILE_BYTES):
            with tempfile.NamedTemporaryFile(prefix="tidegate-") as file:
                file.write(rows.bytes_of(begin, behind))
                file.flush()
                run(self.connection, "SAVEPOINT part")
                taken = self._loaded(shape.load_into(self.stage, self.connection.escape(file.name)), behind - begin)
            if not taken:
                run(self.connection, "ROLLBACK TO SAVEPOINT part")
                part = batch.slice(begin, behind - begin)
                self._insert(shape, shape.rows(part, first + begin, TUPLES))

    def _loaded(self, statement: str, rows: int) -> bool:
        with self.connection.cursor() as cursor:
            taken = cursor.execute(statement)
            return taken == rows and cast("Any", cursor).warning_count == 0
