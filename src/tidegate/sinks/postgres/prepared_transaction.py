"""The transaction of the prepared protocol, in a task: it copies its rows straight into the target, writes its evidence
row, and is prepared (PREPARE TRANSACTION).

From then on it belongs to no session. Any process that has its identifier can end it, also after a crash of the server
(postgresql.org/docs/current/sql-prepare-transaction.html). The evidence row comes last: until then two transactions of
one attempt do not wait for each other, and from then on only one of them can be prepared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress

import psycopg

from tidegate.core.errors import TidegateError
from tidegate.core.records import Attempt
from tidegate.sinks.postgres.copying import CopyingTransaction
from tidegate.sinks.postgres.declared import DeclaredPostgresSink, qualified
from tidegate.sinks.postgres.evidence import EvidenceRows
from tidegate.sinks.postgres.names import PreparedName
from tidegate.sinks.postgres.prepared import end_writers, literal, name_backend, prepared_here, roll_back
from tidegate.sinks.postgres.protocol import GID
from tidegate.sinks.postgres.server import Session, run
from tidegate.sinks.postgres.shape import StageShape
from tidegate.sinks.refusals import committed_meanwhile
from tidegate.sinks.row_values import InvalidText


class PreparedTransaction(CopyingTransaction):
    """Prepares one attempt's rows. What an older transaction of the attempt has left is ended first, and so is what
    other attempts of the task have prepared: it would hold the same entries of a unique index.
    """

    def __init__(self, sink: DeclaredPostgresSink, attempt: Attempt) -> None:
        super().__init__(sink, attempt)
        self._name = PreparedName.of(sink, attempt)
        self._asked_to_prepare = False

    @classmethod
    def again(cls, sink: DeclaredPostgresSink, attempt: Attempt) -> PreparedTransaction:
        """For rows of a journal. They were accepted before: a policy for texts that the program has changed since must
        not stop a decided epoch.
        """
        transaction = cls(sink, attempt)
        transaction._rules = dataclasses.replace(sink.rules, invalid_text=InvalidText.REPLACE)
        return transaction

    def abort(self) -> None:
        super().abort()
        if self._asked_to_prepare:
            with suppress(psycopg.Error, TidegateError), self._sink.server.connected() as connection:
                roll_back(connection, str(self._name))

    def _before(self, connection: Session) -> None:
        end_writers(connection, self._name)
        for each in prepared_here(connection):
            if each.name is not None and each.name.is_of_task(self._name):
                roll_back(connection, each.gid)

    def _into(self, connection: Session, shape: StageShape) -> bytes:
        name_backend(connection, self._name)
        return shape.copy_into(qualified(self._sink, self._sink.table))

    def _checksum(self) -> str:
        """The number of rows. Their bytes change if a column has another type when they are written again."""
        return f"rows:{self._rows}"

    def _make_durable(self, connection: Session, digest: str) -> Mapping[str, str]:
        try:
            EvidenceRows(connection, self._sink.schema).record(self._attempt, digest)
        except psycopg.errors.UniqueViolation:
            raise committed_meanwhile(self._name, f"sink {self._sink.uid!r}: {self._sink.server}") from None
        self._asked_to_prepare = True
        run(connection, f"PREPARE TRANSACTION {literal(str(self._name))}")
        return {GID: str(self._name)}
