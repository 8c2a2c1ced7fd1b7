"""The transaction of the protocol XA, in a task: it writes its rows straight into the target, then its evidence row,
and is prepared.

From then on it belongs to no session: once this one has ended, any process that has its identifier can end it, also
after a crash of the server (dev.mysql.com/doc/refman/8.4/en/xa-states.html; MariaDB from 10.5 on). The evidence row
comes last: until then two branches of one attempt do not wait for each other, and from then on only one of them can be
prepared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress

from pymysql.err import MySQLError

from tidegate.core.errors import TidegateError
from tidegate.core.records import Attempt
from tidegate.sinks.mysql.branches import prepared_here, roll_back
from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.evidence import BranchEvidence
from tidegate.sinks.mysql.loading import Loader
from tidegate.sinks.mysql.names import quoted
from tidegate.sinks.mysql.protocol import GID
from tidegate.sinks.mysql.server import IDLE_SECONDS, MySQLSession, run
from tidegate.sinks.mysql.shape import MySQLStageShape
from tidegate.sinks.mysql.words import DUPLICATE, code_of
from tidegate.sinks.mysql.writing import WritingTransaction
from tidegate.sinks.mysql.xids import Xid
from tidegate.sinks.refusals import committed_meanwhile
from tidegate.sinks.row_values import InvalidText


class XaTransaction(WritingTransaction):
    """Prepares one attempt's rows. What an older branch of the attempt has left is ended first, and so is what other
    attempts of the task have prepared: it would hold the same entries of a unique index.
    """

    def __init__(self, sink: DeclaredMySQLSink, attempt: Attempt) -> None:
        super().__init__(sink, attempt)
        self._xid = Xid.of(sink, attempt)
        self._asked_to_prepare = False

    @classmethod
    def again(cls, sink: DeclaredMySQLSink, attempt: Attempt) -> XaTransaction:
        """For rows of a journal, on a driver. They were accepted before: a policy for texts that the program has
        changed since must not stop a decided epoch. A driver that is paused must not keep the identifier for long.
        """
        transaction = cls(sink, attempt)
        transaction.idle_seconds = IDLE_SECONDS
        transaction._rules = dataclasses.replace(sink.rules, invalid_text=InvalidText.REPLACE)
        return transaction

    def abort(self) -> None:
        super().abort()  # the server rolls back what is not prepared
        if self._asked_to_prepare:
            with suppress(MySQLError, TidegateError), self._sink.server.connected() as connection:
                roll_back(connection, self._xid)

    def _shaped(self, shape: MySQLStageShape) -> MySQLStageShape:
        return dataclasses.replace(shape, is_stage=False)

    def _begin(self, connection: MySQLSession, shape: MySQLStageShape) -> Loader:
        for each in prepared_here(connection):
            if each.is_of_task(self._xid):
                roll_back(connection, each)
        run(connection, f"XA START {self._xid.in_sql}")
        return Loader(connection, quoted(self._sink.table), sends_files=False)

    def _checksum(self) -> str:
        """The number of rows. Their texts change if a column has another type when they are written again."""
        return f"rows:{self._rows}"

    def _make_durable(self, connection: MySQLSession, digest: str) -> Mapping[str, str]:
        try:
            BranchEvidence(connection).record(self._attempt, digest)
        except MySQLError as error:
            if code_of(error) != DUPLICATE:
                raise
            raise committed_meanwhile(self._xid, f"sink {self._sink.uid!r}: {self._sink.server}") from None
        run(connection, f"XA END {self._xid.in_sql}")
        self._asked_to_prepare = True
        run(connection, f"XA PREPARE {self._xid.in_sql}")
        return {GID: str(self._xid)}
