"""The transaction of the staged protocol, in a task: it creates one staging table, fills it, and commits it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from pymysql.err import MySQLError

from tidegate.core.records import Attempt
from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.loading import Loader
from tidegate.sinks.mysql.names import quoted
from tidegate.sinks.mysql.protocol import STAGE
from tidegate.sinks.mysql.server import MySQLSession, run
from tidegate.sinks.mysql.shape import MySQLStageShape
from tidegate.sinks.mysql.stages import create_stage
from tidegate.sinks.mysql.writing import WritingTransaction
from tidegate.sinks.stage_names import StageName


class MySQLTransaction(WritingTransaction):
    """Writes one attempt's stage."""

    sends_files = True

    def __init__(self, sink: DeclaredMySQLSink, attempt: Attempt) -> None:
        super().__init__(sink, attempt)
        self._stage = str(StageName.new(attempt))

    def abort(self) -> None:
        """A stage that cannot be dropped now is dropped when its epoch is finished."""
        with suppress(MySQLError):
            if self._loader is not None and self._loader.connection.open:
                run(self._loader.connection, "ROLLBACK")
                run(self._loader.connection, f"DROP TABLE IF EXISTS {quoted(self._stage)}")
        super().abort()

    def _begin(self, connection: MySQLSession, shape: MySQLStageShape) -> Loader:
        create_stage(connection, self._stage, shape, self._attempt)
        loader = Loader.of(connection, self._sink.server, quoted(self._stage))
        run(connection, "START TRANSACTION")
        return loader

    def _make_durable(self, connection: MySQLSession, digest: str) -> Mapping[str, str]:
        run(connection, "COMMIT")
        return {STAGE: self._stage}

    def _checksum(self) -> str:
        return self._content.hexdigest()
