"""The file sink: each task stages its files in a hidden folder; the commit publishes them under their final names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
from tidegate.sinks.files.check import violations_of
from tidegate.sinks.files.declared import folder_of, format_of, limit_of, with_header
from tidegate.sinks.files.described import FileTarget, target_of
from tidegate.sinks.files.local_place import LocalPlace
from tidegate.sinks.files.place import TargetPlace
from tidegate.sinks.files.remote_place import RemotePlace
from tidegate.sinks.files.shape import FileShape
from tidegate.sinks.files.transaction import FileTransaction
from tidegate.sinks.promises import Promise
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused


class FileSink(TwoPhaseSink):
    """New files in one folder, exactly once: on a disk, on HDFS (`hdfs://`, `viewfs://`) or on S3 (`s3://`).

    `format` is "parquet", "json" (one JSON object on each line), "csv" or "text" (one string column, one line for each
    row). With `header` each CSV file begins with the names of the columns. `partition_by` writes the rows into Hive's
    folders `<column>=<value>`, as Spark does: these columns stand only in the names of folders, and both nulls and
    empty texts are read back as null. A new file begins after `max_file_rows` rows or about `target_file_bytes` bytes.
    `invalid_text`: a row with a text that is not UTF-8 is refused ("refuse"), or each such part becomes U+FFFD
    ("replace").

    A task with rows writes one file, or several if the sink is partitioned or limits its files. Their names are
    `<job>-<job id>-g<generation>-e<epoch>-t<task>-<attempt>[_<number>].<format>`. A file becomes visible as a whole;
    the files of an epoch appear one after the other. Several jobs and sinks may write to one folder.

    The rename proves the commit: nothing else takes a staged file out of its epoch's folder. Before the first rename of
    an epoch, a claim records its transactions (`tidegate.sinks.marks`). The claim keeps a second timeline out, and
    `position` returns it. So you may compact or remove visible files at any time. On S3 there is no rename: the server
    copies, and you may compact files of epochs up to the newest done one (docs/files.md). The hidden folder `.tidegate`
    in `path` belongs to the sink.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="files.md",
            readers_see="whole files with final names, one after the other; everything else is hidden",
            after_crash="the remaining files appear at the next start",
        ),
    )

    def __init__(
        self,
        uid: str,
        path: str | os.PathLike[str],
        *,
        format: str = "parquet",
        header: bool = False,
        partition_by: Sequence[str] | str = (),
        max_file_rows: int | None = None,
        target_file_bytes: int | None = None,
        invalid_text: str = "refuse",
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        layout = format_of(uid, format)
        self.shape = FileShape(
            format=with_header(uid, layout) if header else layout,
            partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
            max_rows=limit_of(uid, "max_file_rows", max_file_rows),
            target_bytes=limit_of(uid, "target_file_bytes", target_file_bytes),
            invalid_text=option_of(InvalidText, "invalid_text", invalid_text, uid),
        )
        self.folder = folder_of(path)
        self.place: TargetPlace = LocalPlace(self.folder.local()) if self.folder.is_local else RemotePlace(self.folder)

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "files"

    def describe(self) -> Mapping[str, object]:
        return msgspec.to_builtins(target_of(self))

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        return cls(uid, msgspec.convert(described, FileTarget).path, delivery=delivery)

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return str(msgspec.convert(described, FileTarget))

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return self.place.probed(what)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self, plan)

    def open(self, plan: SinkPlan) -> None:
        self.place.open(plan.identity)

    def position(self, identity: SinkIdentity) -> Position | None:
        """The newest epoch with a started commit. It is at or above each finished epoch, and at or below the last
        decided one.
        """
        return self.place.position(identity)

    # --- in a task -----------------------------------------------------------------------------------------

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return self.shape.refused(batch, self.place.stage.limits)

    def begin(self, attempt: Attempt) -> Transaction:
        return FileTransaction(self.place.stage, attempt, self.shape)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self.place.committer.commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self.place.committer.commit_straight(committables)

    def evidence(self, committable: Committable) -> Evidence:
        return self.place.committer.evidence(committable)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return self.place.pending(identity)

    def abort(self, transactions: Sequence[str]) -> None:
        self.place.abort(transactions)

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self.place.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self.place.discard(identity, from_epoch)

    def forget(self, identity: SinkIdentity) -> None:
        self.place.forget(identity)
