"""The Iceberg sink: each task stages Parquet files; one commit of the table names all of them."""

from __future__ import annotations

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
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.data_files import DataFiles
from tidegate.sinks.files.declared import limit_of
from tidegate.sinks.files.formats import FORMATS
from tidegate.sinks.iceberg.check import location_violations, violations_of, without_namespace
from tidegate.sinks.iceberg.columns import TableColumns, TableShape
from tidegate.sinks.iceberg.committer import IcebergCommitter, files_at, forget, ledger_of
from tidegate.sinks.iceberg.described import IcebergTarget, probed, properties_of, target_of
from tidegate.sinks.iceberg.place import CataloguedTable, reached, unusable
from tidegate.sinks.iceberg.table import made_ready
from tidegate.sinks.iceberg.transaction import IcebergTransaction
from tidegate.sinks.promises import Promise
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.schema_change import SchemaChange
from tidegate.sinks.table_refusals import only_appended
from tidegate.sinks.value_table import Target

_FORMAT = replace(FORMATS["parquet"], target=Target.ICEBERG)


class IcebergSink(TwoPhaseSink):
    """Rows appended to one Iceberg table, exactly once: on a disk, or on S3.

    `table`: "namespace.table". `catalog`: the name of a catalog in the configuration of pyiceberg, or any name together
    with `catalog_properties`, which count more. A missing table is created at `location` (by default where the catalog
    puts it), partitioned by `partition_by`, with the table properties `properties`. `partition_by`: columns, or
    `years(c)`, `months(c)`, `days(c)`, `hours(c)`, `bucket(16, c)`, `truncate(4, c)` of a column. An existing table
    must have the columns of the rows, with types that hold their values; `schema="evolve"` adds columns that it lacks.
    It may have more columns, if these are optional. A new file begins after about `target_file_bytes` bytes.
    `invalid_text`: a row with a text that is not UTF-8 is refused ("refuse"), or each such part becomes U+FFFD
    ("replace"). `key` is refused: rows are only appended.

    An epoch becomes visible in ONE commit of the table, together with its evidence (`ledger.py`). Until then its files
    are in the hidden folder `.tidegate` of the table's location, which belongs to the sink. Other writers may append,
    delete, compact and expire snapshots at the same time. Spark is not asked to write: the session needs no package of
    Iceberg.

    The staged files are the journal of an epoch (`JournalKeeper.STAGE`). The ledger has no copy of the rows: each
    row would be written twice, and tools that clean tables up leave hidden folders alone. So a lost staged file cannot
    be written again: the answer is LOST, and the job stops.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="iceberg.md",
            readers_see="an epoch's rows all at once, in one commit of the table with its evidence",
            after_crash="not there or whole; the next start finishes it",
            needs="a catalog whose commits are atomic, as those of SQL and REST are",
        ),
    )

    def __init__(
        self,
        uid: str,
        table: str,
        *,
        catalog: str = "default",
        catalog_properties: Mapping[str, str] | None = None,
        location: str | None = None,
        partition_by: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        schema: str = "same",
        target_file_bytes: int | None = None,
        invalid_text: str = "refuse",
        key: Sequence[str] | str | None = None,
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        if key is not None:
            raise only_appended(uid, key)
        if not all(parts := tuple(table.split("."))) or len(parts) == 1:
            raise without_namespace(uid, table)
        self.place = CataloguedTable(catalog, dict(catalog_properties or {}), parts, location)
        self.place.keep_secrets()
        self.shape = TableShape(
            format=_FORMAT,
            target_bytes=limit_of(uid, "target_file_bytes", target_file_bytes),
            invalid_text=option_of(InvalidText, "invalid_text", invalid_text, uid),
        )
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.properties: Mapping[str, str] = dict(properties or {})
        self.schema = option_of(SchemaChange, "schema", schema, uid)

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "iceberg"

    def describe(self) -> Mapping[str, object]:
        return msgspec.to_builtins(target_of(self))

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        target = msgspec.convert(described, IcebergTarget)
        properties = properties_of(target, options)
        return cls(uid, target.table, catalog=target.catalog, catalog_properties=properties, delivery=delivery)

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return str(msgspec.convert(described, IcebergTarget))

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return probed(self, what, plan)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self, plan)

    def open(self, plan: SinkPlan) -> None:
        with reached(self.place, self.uid):
            table = made_ready(self, plan.schema)
            for violation in location_violations(table.location(), plan, f"sink {self.uid!r}: {self.place}"):
                raise violation
            self.shape = replace(self.shape, columns=TableColumns.of(table))
            files_at(table.location()).open()

    def position(self, identity: SinkIdentity) -> Position | None:
        with reached(self.place, self.uid):
            table = self.place.read()
            return None if table is None else ledger_of(self.place, table).position(identity)

    # --- in a task -----------------------------------------------------------------------------------------

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return self.shape.refused(batch)

    def begin(self, attempt: Attempt) -> Transaction:
        columns = self._columns()
        if columns is None:
            raise unusable("there is no table any more", self.place, self.uid)
        return IcebergTransaction(columns, self.shape, attempt)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return IcebergCommitter(self).commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return IcebergCommitter(self).commit_straight(committables)

    def evidence(self, committable: Committable) -> Evidence:
        return IcebergCommitter(self).evidence(committable)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        files = self._files()
        return () if files is None else files.pending(identity)

    def abort(self, transactions: Sequence[str]) -> None:
        files = self._files()
        if files is not None:
            files.abort(transactions)

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        files = self._files()
        if files is not None:
            files.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        files = self._files()
        return 0 if files is None else files.discard(identity, from_epoch)

    def forget(self, identity: SinkIdentity) -> None:
        with reached(self.place, self.uid):
            forget(self.place, identity)

    def _files(self) -> DataFiles | None:
        """The files of the table; None if there is none."""
        columns = self._columns()
        return None if columns is None else files_at(columns.location)

    def _columns(self) -> TableColumns | None:
        """Of the table that was opened, else of the one that the catalog has now; None if it has none."""
        if self.shape.columns is not None:
            return self.shape.columns
        with reached(self.place, self.uid):
            table = self.place.read()
        return None if table is None else TableColumns.of(table)
