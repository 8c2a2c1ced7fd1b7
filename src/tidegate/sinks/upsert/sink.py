"""The upsert sink: a row a key of a database's table, visible inside its epoch, and replaced by an epoch that runs
again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from tidegate.core.errors import TidegateError
from tidegate.core.guarantees import Shows
from tidegate.core.health import Finding
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome, Position, SinkIdentity
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink, answer_all
from tidegate.sinks.promises import Promise
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.upsert.check import violations_of
from tidegate.sinks.upsert.declared import DeclaredUpsertSink
from tidegate.sinks.upsert.described import reopened, told_of
from tidegate.sinks.upsert.opening import database_of


class UpsertSink(TwoPhaseSink):
    """Rows by key into one table of a SQLite, PostgreSQL, MySQL or MariaDB database. A later row replaces the earlier
    one of its key.

    `url`: `postgresql://user@host/database`, `mysql://user@host:3306/database` (also `mariadb://`), or the path of a
    SQLite database. `options`: more settings of libpq or PyMySQL, as `PostgresSink` and `MySQLSink` take them; a value
    may be `env:NAME` or `file:PATH`, as for a password. `schema`: of PostgreSQL only; "public" if it is not given.

    `key`: the columns that name a row, with a PRIMARY KEY or UNIQUE index over exactly them. `deleted`: a boolean
    column of the rows, which is not written; where it is true, the row with this key is deleted. A missing table is
    created. Types and values are those of the plain sink of the database.

    The rows of a task become visible at once, when the task has written all of them: before their epoch is decided. An
    epoch that runs again writes the same keys, so the content ends exact if the query computes the same rows again. A
    driver that was paused, or one of a generation before a restore, overwrites nothing: see docs/upsert.md.

    A row that the table refuses (a constraint, a trigger, a type) is refused in its task. A row with a null in its key
    is refused. A row with a text that is not UTF-8 is refused (`invalid_text="refuse"`), or each such part becomes
    U+FFFD ("replace").
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    shows: ClassVar[Shows] = Shows.INSIDE
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="upsert.md",
            readers_see="the rows of each task at once, before the decision; a late task or driver overwrites nothing",
            after_crash="the epoch runs again and replaces its rows: exact at the end for a deterministic query",
            needs="a PRIMARY KEY or UNIQUE index over the key; otherwise as the plain sink of the database",
        ),
    )

    def __init__(
        self,
        uid: str,
        url: str | os.PathLike[str],
        *,
        table: str,
        key: Sequence[str] | str,
        schema: str | None = None,
        deleted: str | None = None,
        invalid_text: str = "refuse",
        options: Mapping[str, str | int | bool] | None = None,
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.database = database_of(
            DeclaredUpsertSink(
                uid=uid,
                url=url,
                table=table,
                key=self.key,
                schema=schema,
                deleted=deleted,
                invalid_text=invalid_text,
                options=options or {},
                delivery=delivery,
            )
        )

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "upsert"

    def describe(self) -> Mapping[str, object]:
        database = self.database
        return {**database.inner.describe(), "database": database.word, "deleted": database.deleted}

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        return cls(uid, **reopened(described, options), delivery=delivery)

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return told_of(described)

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return self.database.inner.probe(what, plan)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self.database, plan)

    def open(self, plan: SinkPlan) -> None:
        self.database.inner.open(self.database.plan_of(plan))
        with self.database.reached() as session:
            self.database.create_tables(session)

    def position(self, identity: SinkIdentity) -> Position | None:
        return self.database.inner.position(identity)

    def begin_run(self, identity: SinkIdentity, run: int, run_token: str) -> str | None:
        return self.database.begin_run(identity, run, run_token)

    # --- in a task -----------------------------------------------------------------------------------------

    def in_epoch(self, finished_through: int) -> TwoPhaseSink:
        """With the current description of the table."""
        self.database.inner.in_epoch(finished_through)
        return self

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return self.database.inner.refused(batch)

    def begin(self, attempt: Attempt) -> Transaction:
        return self.database.begin(attempt)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self.database.commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """The rows are visible already."""
        return answer_all(committables, Outcome.COMMITTED, "")

    def evidence(self, committable: Committable) -> Evidence:
        return self.database.inner.evidence(committable)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Refuses rows of finished epochs from now on, and forgets which keys they have deleted."""
        self.database.inner.clean(identity, finished_through)
        if finished_through >= 0:
            self.database.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self.database.inner.discard(identity, from_epoch)

    def forget(self, identity: SinkIdentity) -> None:
        """Other jobs may write the keys of this one from now on. The rows stay."""
        self.database.forget(identity)
        self.database.inner.forget(identity)
