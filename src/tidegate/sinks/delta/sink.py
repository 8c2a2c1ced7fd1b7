"""The Delta sink: each task stages Parquet files; one commit of the table's log names all of them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import msgspec
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
from tidegate.disk.durable import SyncFailed
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.data_files import data_files_of
from tidegate.sinks.delta.check import violations_of
from tidegate.sinks.delta.committer import DeltaCommitter, forget
from tidegate.sinks.delta.compacting import compact
from tidegate.sinks.delta.declared import Keyed, TableRules, at_least_two, refused_by
from tidegate.sinks.delta.described import DeltaTarget, probed, target_of
from tidegate.sinks.delta.ledger import TableLedger
from tidegate.sinks.delta.log_syncs import sync_log
from tidegate.sinks.delta.place import TABLE_ERRORS, TablePlace, reached, told
from tidegate.sinks.delta.table import made_ready, rules_of
from tidegate.sinks.delta.transaction import DeltaTransaction
from tidegate.sinks.delta.upkeep import tidy_log
from tidegate.sinks.files.declared import folder_of, limit_of
from tidegate.sinks.files.formats import FORMATS
from tidegate.sinks.files.shape import FileShape
from tidegate.sinks.promises import Promise
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.schema_change import SchemaChange
from tidegate.sinks.value_table import Target

_LOG = logging.getLogger("tidegate")
_FORMAT = replace(FORMATS["parquet"], target=Target.DELTA)


class DeltaSink(TwoPhaseSink):
    """Rows into one Delta table, exactly once: on a disk, or on S3 (`s3://`).

    Without `key` rows are appended. With `key` a row replaces the rows with the same values in these columns (the last
    row wins, in the order of tasks and rows). `deleted`: a boolean column of the rows, which is not written; where it
    is true, the row with this key is deleted.

    A missing table is created, partitioned by the columns `partition_by`, with the table properties `properties`. An
    existing one must have the columns of the rows, with their types; `schema="evolve"` adds columns that it lacks. It
    may have more columns, if these may be null. A new file begins after about `target_file_bytes` bytes.
    `compact_at`: so many small files of a partition, or more, become one behind a done epoch. `invalid_text`: a row
    with a text that is not UTF-8 is refused ("refuse"), or each such part becomes U+FFFD ("replace").

    An epoch becomes visible in ONE commit of the table's log, together with its evidence (`ledger.py`). With `key` this
    commit also removes the files with older rows of the same keys, and adds files with their other rows. Until then all
    new files are in the hidden folder `.tidegate` of the table, which belongs to the sink. Other writers may append,
    delete, OPTIMIZE and VACUUM at the same time. Spark is not asked to write: the session needs no package of Delta.

    The staged files are the journal of an epoch (`JournalKeeper.STAGE`). The ledger has no copy of the rows: each
    row would be written twice, and tools that clean tables up leave hidden folders alone. So a lost staged file cannot
    be written again: the answer is LOST, and the job stops.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="delta.md",
            readers_see="an epoch's rows all at once, in one commit of the log, without older rows of their keys",
            after_crash="not there or whole; the next start finishes it",
            needs="a table without `delta.setTransactionRetentionDuration`",
        ),
    )

    def __init__(
        self,
        uid: str,
        path: str | os.PathLike[str],
        *,
        partition_by: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        schema: str = "same",
        target_file_bytes: int | None = None,
        compact_at: int | None = None,
        key: Sequence[str] | str | None = None,
        deleted: str | None = None,
        invalid_text: str = "refuse",
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.place = TablePlace(folder_of(path))
        self.files = data_files_of(self.place.folder)
        self.shape = FileShape(
            format=_FORMAT,
            partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
            target_bytes=limit_of(uid, "target_file_bytes", target_file_bytes),
            invalid_text=option_of(InvalidText, "invalid_text", invalid_text, uid),
        )
        self.keyed = Keyed((key,) if isinstance(key, str) else tuple(dict.fromkeys(key or ())), deleted)
        self.compact_at = at_least_two(uid, compact_at)
        self.properties: Mapping[str, str] = dict(properties or {})
        self.schema = option_of(SchemaChange, "schema", schema, uid)
        self.rules = TableRules()

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "delta"

    def describe(self) -> Mapping[str, object]:
        return msgspec.to_builtins(target_of(self))

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        return cls(uid, msgspec.convert(described, DeltaTarget).path, delivery=delivery)

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return str(msgspec.convert(described, DeltaTarget))

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return probed(self, what, plan)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self, plan)

    def open(self, plan: SinkPlan) -> None:
        self.files.open()
        with reached(self.place, self.uid):
            table = made_ready(self, self.keyed.written(plan.schema))
            self.rules = rules_of(table)
            folder = self.place.log_folder()
            if folder is not None:
                sync_log(folder, table.version())

    def position(self, identity: SinkIdentity) -> Position | None:
        with reached(self.place, self.uid):
            table = self.place.table()
            return None if table is None else TableLedger(self.place, table).position(identity)

    # --- in a task -----------------------------------------------------------------------------------------

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return refused_by(self, batch)

    def begin(self, attempt: Attempt) -> Transaction:
        return DeltaTransaction(self, attempt)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return DeltaCommitter(self).commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return DeltaCommitter(self).commit_straight(committables)

    def evidence(self, committable: Committable) -> Evidence:
        return DeltaCommitter(self).evidence(committable)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return self.files.pending(identity)

    def abort(self, transactions: Sequence[str]) -> None:
        self.files.abort(transactions)

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self.files.clean(identity, finished_through)
        try:
            if self.compact_at is not None:
                compact(self, identity, finished_through, self.compact_at)
            tidy_log(self.place, self.rules.checkpoint_interval)
        except SyncFailed:
            raise
        except (*TABLE_ERRORS, TidegateError) as error:
            _LOG.warning("sink %s: the table stays untidy for now: %s", self.uid, told(error))

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self.files.discard(identity, from_epoch)

    def forget(self, identity: SinkIdentity) -> None:
        with reached(self.place, self.uid):
            forget(self.place, identity)
