"""The MySQL sink: tasks stage rows in tables of their own, and one transaction takes all of them; or each task prepares
an XA branch of its own.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

import msgspec
import pyarrow as pa
from pymysql.err import MySQLError

from tidegate.core.errors import TidegateError
from tidegate.core.health import Finding
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    Position,
    SinkIdentity,
)
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.mysql.check import violations_of
from tidegate.sinks.mysql.committer import MySQLCommitter
from tidegate.sinks.mysql.creating import create_table
from tidegate.sinks.mysql.described import MySQLTarget, probed, settings_of, target_of
from tidegate.sinks.mysql.durability import REMEDY, UNSAFE, unsafe_settings
from tidegate.sinks.mysql.ledger import MySQLLedger
from tidegate.sinks.mysql.protocol import MySQLProtocol, protocol_of
from tidegate.sinks.mysql.server import MySQLServer, MySQLSession, reached, transaction, unusable
from tidegate.sinks.mysql.shape import MySQLStageShape
from tidegate.sinks.mysql.stages import drop_stages
from tidegate.sinks.mysql.table import table_of
from tidegate.sinks.mysql.transaction import MySQLTransaction
from tidegate.sinks.mysql.trial import tried
from tidegate.sinks.mysql.values import MySQLRules
from tidegate.sinks.mysql.words import told
from tidegate.sinks.mysql.xa_committer import XaCommitter
from tidegate.sinks.mysql.xa_transaction import XaTransaction
from tidegate.sinks.orphans import OrphanWatch
from tidegate.sinks.promises import EPOCH_AT_ONCE, ROLLED_BACK_OR_WHOLE, TASK_BY_TASK, WRITTEN_AGAIN, Promise
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused, one_for_each_row

_LOG = logging.getLogger("tidegate")


class MySQLSink(TwoPhaseSink):
    """Rows into one table of a MySQL or MariaDB database, exactly once.

    `host`, `database`: of the server. `options`: more of PyMySQL's settings, for instance `port`, `user`, `password`,
    `unix_socket`, `ssl_ca`; a value may be `env:NAME` or `file:PATH`, as for a password. With `local_infile` true, and
    allowed by the server, tasks write by LOAD DATA LOCAL, which can be faster.

    Without `key` rows are appended. With `key` a row replaces the row with the same values in these columns (the last
    row wins, in the order of tasks and rows). `deleted`: a boolean column of the rows, which is not written; where it
    is true, the row with this key is deleted. A missing table is created. An existing one may have more columns than
    the rows, if they fill themselves. For the types see `tidegate.sinks.mysql.types`.

    `protocol="staged"`: an epoch becomes visible in ONE transaction, together with its row in the table
    `_tidegate_ledger`, which is the evidence. Until then its rows are in staging tables of the same database.

    `protocol="xa"`: each task writes into the table itself, together with its row in `_tidegate_evidence`, in a branch
    that it prepares. The rows of a task become visible at once, those of an epoch one task after the other. It appends
    only: `key` and `deleted` are refused, because two tasks with rows of one key would wait for each other's commit. A
    job may change between the protocols at any start.

    A row that the table's types, NOT NULL or CHECK refuse is refused in its task, before the epoch is decided. A row
    that breaks a UNIQUE index, a foreign key or a trigger, or that has no partition, is found at the commit and ends
    the job; with "xa" it is found in its task, too. A row with a text that is not UTF-8 is refused
    (`invalid_text="refuse"`), or each such part becomes U+FFFD ("replace").
    """

    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="mysql.md",
            readers_see=EPOCH_AT_ONCE,
            after_crash=ROLLED_BACK_OR_WHOLE,
            needs="InnoDB with `innodb_flush_log_at_trx_commit=1`, and with a binary log `sync_binlog=1`",
        ),
        Promise(
            option='protocol="xa"',
            page="mysql.md",
            readers_see=TASK_BY_TASK,
            after_crash=WRITTEN_AGAIN,
            needs="as above, and the right to list and end XA branches; no Galera, no group replication",
        ),
    )

    def __init__(
        self,
        uid: str,
        host: str,
        *,
        database: str,
        table: str,
        key: Sequence[str] | str | None = None,
        deleted: str | None = None,
        invalid_text: str = "refuse",
        protocol: str = "staged",
        options: Mapping[str, str | int | bool] | None = None,
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.server = MySQLServer.of(host, database, options or {}, uid)
        self.table = table
        self.key = (key,) if isinstance(key, str) else tuple(key or ())
        self.deleted = deleted
        self.protocol = option_of(MySQLProtocol, "protocol", protocol, uid)
        self.rules = MySQLRules(self.key, deleted, option_of(InvalidText, "invalid_text", invalid_text, uid))

        self._orphans = OrphanWatch()
        self._identity: SinkIdentity | None = None

    def journal_keeper(self) -> JournalKeeper:
        return JournalKeeper.STAGE if self.protocol is MySQLProtocol.STAGED else JournalKeeper.LEDGER

    def places_rows(self) -> bool:
        return self.protocol is MySQLProtocol.XA

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "mysql"

    def describe(self) -> Mapping[str, object]:
        return msgspec.to_builtins(target_of(self))

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        target = msgspec.convert(described, MySQLTarget)
        settings = settings_of(target, options)
        return cls(
            uid,
            settings.pop("host"),
            database=settings.pop("database"),
            table=target.table,
            key=target.key,
            deleted=target.deleted,
            invalid_text=target.invalid_text,
            protocol=target.protocol,
            options=settings,
            delivery=delivery,
        )

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return str(msgspec.convert(described, MySQLTarget))

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return probed(self, what, plan)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self, plan)

    def open(self, plan: SinkPlan) -> None:
        with reached(self.server, self.uid) as connection:
            MySQLLedger(connection).create()
            create_table(connection, self, plan.schema)
            self._look(connection)
            unsafe = unsafe_settings(connection)
        self._identity = plan.identity
        if unsafe:
            _LOG.warning("sink %s: %s: %s; %s", self.uid, ", ".join(unsafe), UNSAFE, REMEDY)

    def _look(self, connection: MySQLSession) -> None:
        self.rules = dataclasses.replace(self.rules, table=table_of(connection, self.table))

    def position(self, identity: SinkIdentity) -> Position | None:
        with reached(self.server, self.uid) as connection:
            return MySQLLedger(connection).newest_proved(identity)

    # --- in a task -----------------------------------------------------------------------------------------

    def in_epoch(self, finished_through: int) -> TwoPhaseSink:
        """With the current description of the table. If it cannot be read now, with that of the last read."""
        with suppress(MySQLError), self.server.connected() as connection:
            self._look(connection)
        if self.protocol is MySQLProtocol.XA and self._identity is not None:
            self._orphans.abort_orphans(self, self._identity)
        return self

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        """Called for a query with dead letters. Where only the server can tell, it is asked."""
        found = self.rules.refused(batch)
        table = self.rules.table
        if table is None:
            return found
        shape = MySQLStageShape.of(self.rules, table, batch)
        if shape.missing or not shape.must_be_tried(batch):
            return found
        gone = {each.row for each in found}
        left = [row for row in range(batch.num_rows) if row not in gone]
        try:
            return one_for_each_row([*found, *tried(self.server, shape, batch, left)])
        except MySQLError as error:
            raise unusable(error, self.server, self.uid) from None

    def begin(self, attempt: Attempt) -> Transaction:
        return XaTransaction(self, attempt) if self.protocol is MySQLProtocol.XA else MySQLTransaction(self, attempt)

    # --- the commit phase, on a driver: by the protocol that has written the rows ----------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self._committer_of(committables).commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self._committer_of(committables).commit_straight(committables)

    def evidence(self, committable: Committable) -> Evidence:
        return self._committer_of([committable]).evidence(committable)

    def fence(self, committable: Committable) -> None:
        if protocol_of(committable) is MySQLProtocol.XA:
            XaCommitter(self).fence(committable)

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        """Only what was prepared by XA has a journal in the checkpoint."""
        return XaCommitter(self).redo(committable, batches)

    def _committer_of(self, committables: Sequence[Committable]) -> MySQLCommitter | XaCommitter:
        """An epoch was written by one run, so all of its transactions are of one protocol."""
        if any(protocol_of(each) is MySQLProtocol.XA for each in committables):
            return XaCommitter(self)
        return MySQLCommitter(self)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return XaCommitter(self).pending(identity)

    def abort(self, transactions: Sequence[str]) -> None:
        XaCommitter(self).abort(transactions)

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Drops the stages of finished epochs, and of older generations, which have nothing undecided any more."""
        try:
            with self.server.connected() as connection:
                drop_stages(
                    connection,
                    identity,
                    lambda stage: (stage.generation, stage.epoch) <= (identity.generation, finished_through),
                )
                MySQLLedger(connection).trim_evidence(identity, finished_through)
        except MySQLError as error:
            _LOG.warning("sink %s: staging tables and old evidence stay for now: %s", self.uid, told(error))

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        with reached(self.server, self.uid) as connection:
            return drop_stages(
                connection,
                identity,
                lambda stage: stage.generation == identity.generation and stage.epoch >= from_epoch,
            )

    def forget(self, identity: SinkIdentity) -> None:
        with reached(self.server, self.uid) as connection:
            with transaction(connection):
                MySQLLedger(connection).remove(identity)
            drop_stages(connection, identity, lambda _: True)
