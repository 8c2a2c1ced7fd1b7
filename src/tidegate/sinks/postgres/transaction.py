"""The transaction of the staged protocol, in a task: it creates one staging table, fills it by COPY, and commits it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from tidegate.core.records import Attempt
from tidegate.sinks.postgres.copying import CopyingTransaction
from tidegate.sinks.postgres.declared import DeclaredPostgresSink, qualified
from tidegate.sinks.postgres.protocol import STAGE
from tidegate.sinks.postgres.server import Session, run
from tidegate.sinks.postgres.shape import StageShape
from tidegate.sinks.postgres.stages import create_stage
from tidegate.sinks.stage_names import StageName


class PostgresTransaction(CopyingTransaction):
    """Writes one attempt's stage."""

    kind: ClassVar[str] = "TABLE"
    """Of the stage, in SQL."""

    def __init__(self, sink: DeclaredPostgresSink, attempt: Attempt) -> None:
        super().__init__(sink, attempt)
        self._stage = str(StageName.new(attempt))
        self._test_of_keys: str | None = None
        self._sum = hashlib.sha256()

    def _into(self, connection: Session, shape: StageShape) -> bytes:
        stage = qualified(self._sink, self._stage)
        create_stage(connection, stage, shape, self._attempt, self.kind)
        # The table is of the same transaction, so FREEZE is allowed: no later reader has to mark its rows.
        return shape.copy_into(stage, ", FREEZE true")

    def _look(self, batch: pa.RecordBatch, shape: StageShape) -> None:
        if shape.has_long_key(batch):
            self._test_of_keys = shape.index_of_keys(qualified(self._sink, self._stage))

    def _copied(self, data: bytes | memoryview) -> None:
        self._sum.update(data)

    def _checksum(self) -> str:
        return self._sum.hexdigest()

    def _make_durable(self, connection: Session, digest: str) -> Mapping[str, str]:
        if self._test_of_keys is not None:
            run(connection, self._test_of_keys)
        run(connection, "COMMIT")
        return {STAGE: self._stage}
