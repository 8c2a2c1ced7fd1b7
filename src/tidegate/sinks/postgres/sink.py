"""The PostgreSQL sink: tasks stage rows in tables of their own, and one transaction takes all of them; or each task
prepares a transaction of its own.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

import msgspec
import psycopg
import pyarrow as pa

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
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import JournalKeeper, OpenTransaction, SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.orphans import OrphanWatch
from tidegate.sinks.postgres.check import violations_of
from tidegate.sinks.postgres.committer import PostgresCommitter
from tidegate.sinks.postgres.declared import qualified
from tidegate.sinks.postgres.described import PostgresTarget, probed, settings_of, target_of
from tidegate.sinks.postgres.ledger import Ledger
from tidegate.sinks.postgres.prepared import warn_of_old
from tidegate.sinks.postgres.prepared_committer import PreparedCommitter
from tidegate.sinks.postgres.prepared_transaction import PreparedTransaction
from tidegate.sinks.postgres.protocol import CommitProtocol, protocol_of
from tidegate.sinks.postgres.server import Server, Session, reached, run, transaction, unusable
from tidegate.sinks.postgres.shape import StageShape
from tidegate.sinks.postgres.stages import drop_stages
from tidegate.sinks.postgres.table import table_of
from tidegate.sinks.postgres.transaction import PostgresTransaction
from tidegate.sinks.postgres.trial import tried
from tidegate.sinks.postgres.types import created_as
from tidegate.sinks.postgres.values import PostgresRules
from tidegate.sinks.postgres.words import told
from tidegate.sinks.promises import EPOCH_AT_ONCE, ROLLED_BACK_OR_WHOLE, TASK_BY_TASK, WRITTEN_AGAIN, Promise
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.sql_names import list_of, quoted

_LOG = logging.getLogger("tidegate")


class PostgresSink(TwoPhaseSink):
    """Rows into one table of a PostgreSQL database, exactly once.

    `conninfo`: a connection string of libpq (`"host=db dbname=shop user=etl"`, or a URL). `options`: more settings of
    libpq, for instance `sslmode`; a value may be `env:NAME` or `file:PATH`, as for a password. Without a password
    libpq looks for one as usual (PGPASSWORD, ~/.pgpass).

    Without `key` rows are appended. With `key` a row replaces the row with the same values in these columns (the last
    row wins, in the order of tasks and rows). `deleted`: a boolean column of the rows, which is not written; where it
    is true, the row with this key is deleted. A missing table is created. An existing one may have more columns than
    the rows, if they fill themselves. For the types see `tidegate.sinks.postgres.types`.

    `protocol="staged"`: an epoch becomes visible in ONE transaction, together with its row in the table
    `_tidegate_ledger`, which is the evidence. Until then its rows are in staging tables of the same schema. The server
    needs no prepared transactions.

    `protocol="prepared"`: each task writes into the table itself, together with its row in `_tidegate_evidence`, and
    prepares its transaction. The rows of a task become visible at once, those of an epoch one task after the other. It
    appends only: `key` and `deleted` are refused, because two tasks with rows of one key would wait for each other's
    commit. Both protocols work through a pooler in transaction mode, and a job may change between them at any start.

    A row that the table's types, NOT NULL or CHECK refuse is refused in its task, before the epoch is decided. A row
    that breaks a UNIQUE index, a foreign key or a trigger, or that has no partition, is found at the commit and ends
    the job; with "prepared" it is found in its task, too. A row with a text that is not UTF-8 is refused
    (`invalid_text="refuse"`), or each such part becomes U+FFFD ("replace").
    """

    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="postgres.md",
            readers_see=EPOCH_AT_ONCE,
            after_crash=ROLLED_BACK_OR_WHOLE,
            needs="PostgreSQL 13 or newer; rights on the schema and the table",
        ),
        Promise(
            option='protocol="prepared"',
            page="postgres.md",
            readers_see=TASK_BY_TASK,
            after_crash=WRITTEN_AGAIN,
            needs="`max_prepared_transactions` of at least the tasks of an epoch, for all jobs of the server together",
        ),
    )

    def __init__(
        self,
        uid: str,
        conninfo: str,
        *,
        table: str,
        schema: str = "public",
        key: Sequence[str] | str | None = None,
        deleted: str | None = None,
        invalid_text: str = "refuse",
        protocol: str = "staged",
        options: Mapping[str, str | int] | None = None,
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.server = Server.of(conninfo, options or {}, uid)
        self.table = table
        self.schema = schema
        self.key = (key,) if isinstance(key, str) else tuple(key or ())
        self.deleted = deleted
        self.protocol = option_of(CommitProtocol, "protocol", protocol, uid)
        self.rules = PostgresRules(self.key, deleted, option_of(InvalidText, "invalid_text", invalid_text, uid))
        self._orphans = OrphanWatch()
        self._identity: SinkIdentity | None = None

    def journal_keeper(self) -> JournalKeeper:
        return JournalKeeper.STAGE if self.protocol is CommitProtocol.STAGED else JournalKeeper.LEDGER

    def places_rows(self) -> bool:
        return self.protocol is CommitProtocol.PREPARED

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "postgres"

    def describe(self) -> Mapping[str, object]:
        return msgspec.to_builtins(target_of(self))

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        target = msgspec.convert(described, PostgresTarget)
        return cls(
            uid,
            "",
            table=target.table,
            schema=target.schema,
            key=target.key,
            deleted=target.deleted,
            invalid_text=target.invalid_text,
            protocol=target.protocol,
            options=settings_of(target, options),
            delivery=delivery,
        )

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return str(msgspec.convert(described, PostgresTarget))

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return probed(self, what, plan)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self, plan)

    def open(self, plan: SinkPlan) -> None:
        with reached(self.server, self.uid) as connection:
            try:
                self._create(connection, plan.schema)
            except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
                # Another driver has created them meanwhile: then IF NOT EXISTS fails at the end of its transaction.
                self._create(connection, plan.schema)
            self._look(connection)
            self._identity = plan.identity
            warn_of_old(connection, self.uid)

    def _create(self, connection: Session, schema: pa.Schema) -> None:
        with transaction(connection):
            Ledger(connection, self.schema).create()
            self._create_table(connection, schema)

    def _create_table(self, connection: Session, schema: pa.Schema) -> None:
        if table_of(connection, self.schema, self.table) is not None:
            return
        fields = [field for field in fields_of(schema) if field.name != self.deleted]
        columns = [f"{quoted(field.name)} {created_as(field.type)}" for field in fields]
        if self.key:
            columns.append(f"PRIMARY KEY ({list_of(self.key)})")
        table = qualified(self, self.table)
        run(connection, f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})")

    def _look(self, connection: Session) -> None:
        self.rules = dataclasses.replace(self.rules, table=table_of(connection, self.schema, self.table))

    def position(self, identity: SinkIdentity) -> Position | None:
        with reached(self.server, self.uid) as connection:
            return Ledger(connection, self.schema).newest_proved(identity)

    # --- in a task -----------------------------------------------------------------------------------------

    def in_epoch(self, finished_through: int) -> TwoPhaseSink:
        """With the current description of the table. If it cannot be read now, with that of the last read."""
        with suppress(psycopg.Error), self.server.connected() as connection:
            self._look(connection)
        if self.protocol is CommitProtocol.PREPARED and self._identity is not None:
            self._orphans.abort_orphans(self, self._identity)
        return self

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        """Called for a query with dead letters. Where only the server can tell, it is asked."""
        found = self.rules.refused(batch)
        table = self.rules.table
        if table is None:
            return found
        shape = StageShape.of(self.rules, table, batch)
        if shape.missing or not shape.must_be_tried(batch):
            return found
        gone = {each.row for each in found}
        left = [row for row in range(batch.num_rows) if row not in gone]
        try:
            return one_for_each_row([*found, *tried(self.server, self.schema, shape, batch, left)])
        except psycopg.Error as error:
            raise unusable(error, self.server, self.uid) from None

    def begin(self, attempt: Attempt) -> Transaction:
        if self.protocol is CommitProtocol.PREPARED:
            return PreparedTransaction(self, attempt)
        return PostgresTransaction(self, attempt)

    # --- the commit phase, on a driver: by the protocol that has written the rows ----------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self._committer_of(committables).commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self._committer_of(committables).commit_straight(committables)

    def evidence(self, committable: Committable) -> Evidence:
        return self._committer_of([committable]).evidence(committable)

    def fence(self, committable: Committable) -> None:
        if protocol_of(committable) is CommitProtocol.PREPARED:
            PreparedCommitter(self).fence(committable)

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        """Only what was prepared has a journal in the checkpoint."""
        return PreparedCommitter(self).redo(committable, batches)

    def _committer_of(self, committables: Sequence[Committable]) -> PostgresCommitter | PreparedCommitter:
        """An epoch was written by one run, so all of its transactions are of one protocol."""
        if any(protocol_of(each) is CommitProtocol.PREPARED for each in committables):
            return PreparedCommitter(self)
        return PostgresCommitter(self)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return PreparedCommitter(self).pending(identity)

    def abort(self, transactions: Sequence[str]) -> None:
        PreparedCommitter(self).abort(transactions)

    def open_transactions(self, identity: SinkIdentity) -> Sequence[OpenTransaction]:
        """Includes those of an older life of the job, because they hold back vacuum."""
        return PreparedCommitter(self).open_transactions(identity)

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Drops the stages of finished epochs, and of older generations, which have nothing undecided any more."""
        try:
            with self.server.connected() as connection:
                drop_stages(
                    connection,
                    self.schema,
                    identity,
                    lambda stage: (stage.generation, stage.epoch) <= (identity.generation, finished_through),
                )
                Ledger(connection, self.schema).trim_evidence(identity, finished_through)
        except psycopg.Error as error:
            _LOG.warning("sink %s: staging tables and old evidence stay for now: %s", self.uid, told(error))

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        with reached(self.server, self.uid) as connection:
            return drop_stages(
                connection,
                self.schema,
                identity,
                lambda stage: stage.generation == identity.generation and stage.epoch >= from_epoch,
            )

    def forget(self, identity: SinkIdentity) -> None:
        with reached(self.server, self.uid) as connection:
            with transaction(connection):
                Ledger(connection, self.schema).remove(identity)
            drop_stages(connection, self.schema, identity, lambda _: True)
