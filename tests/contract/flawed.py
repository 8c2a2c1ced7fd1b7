"""Sinks with one planted flaw each, and the one test of the contract that must name it."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from tests.contract.test_shipped_sinks import rows_of_json, rows_of_table
from tidegate.core.errors import TidegateError
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    Outcome,
    Position,
    SinkIdentity,
    committable_digest,
)
from tidegate.sinks.base import SinkPlan, Transaction
from tidegate.sinks.file_formats import FORMATS, RowWriter
from tidegate.sinks.file_stage import FileTransaction, _Measured
from tidegate.sinks.files import FileSink
from tidegate.sinks.sqlite import SQLiteSink
from tidegate.sinks.sqlite_ledger import LEDGER
from tidegate.testing.contract import Row, SinkContract


class FlawedTable(SQLiteSink):
    names: ClassVar[str]

    def execute(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        with self._target() as target:
            return target.execute(statement, values).fetchall()


class FlawedFiles(FileSink):
    names: ClassVar[str]
    transaction: ClassVar[type[FileTransaction]] = FileTransaction

    def begin(self, attempt: Attempt) -> Transaction:
        return self.transaction(self._stage, attempt, FORMATS[self.format])


# --- in the tasks ------------------------------------------------------------------------------------------


class _Preview(FileTransaction):
    def pre_commit(self) -> Committable | None:
        committable = super().pre_commit()
        staged = self._stage.file(self._attempt)
        if committable is not None:
            (self._stage.root.parent / f"preview-{staged.stem}.json").write_bytes(staged.read_bytes())
        return committable


class ShowsAPreview(FlawedFiles):
    names = "test_nothing_is_visible_before_commit"
    transaction = _Preview

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        for preview in self.path.glob("preview-*"):
            preview.unlink(missing_ok=True)
        return super().commit(committables)


class _HeldByTheProcess(FileTransaction):
    def pre_commit(self) -> Committable | None:
        committable = super().pre_commit()
        staged = self._stage.file(self._attempt)
        with suppress(FileNotFoundError):
            descriptor = os.open(staged, os.O_RDONLY)  # never closed: it is all that is left of the file
            staged.unlink()
            staged.symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
        return committable


class DiesWithItsProcess(FlawedFiles):
    names = "test_a_prepared_transaction_outlives_the_process_that_prepared_it"
    transaction = _HeldByTheProcess


class _Continued(FileTransaction):
    def _create(self, schema: pa.Schema) -> tuple[_Measured, RowWriter]:
        staged = self._stage.file(self._attempt)
        left = staged.read_bytes() if staged.exists() else b""
        file, writer = super()._create(schema)
        file.write(left)
        return file, writer


class GoesOnWhereTheFirstAttemptStopped(FlawedFiles):
    names = "test_a_retried_task_does_not_see_its_predecessor"
    transaction = _Continued

    def begin(self, attempt: Attempt) -> Transaction:
        return super().begin(msgspec.structs.replace(attempt, task_attempt=0))


class _SavedAnyway(FileTransaction):
    def abort(self) -> None:
        self.pre_commit()
        staged = self._stage.file(self._attempt)
        staged.rename(self._stage.root.parent / f"{staged.stem}.json")


class SavesWhatIsAborted(FlawedFiles):
    names = "test_an_aborted_transaction_leaves_nothing_visible"
    transaction = _SavedAnyway


class _NeverNone(FileTransaction):
    def pre_commit(self) -> Committable:
        empty = Committable(attempt=self._attempt, rows=0, digest=committable_digest(self._attempt, ""))
        return super().pre_commit() or empty


class CommitsEmptyTransactions(FlawedFiles):
    names = "test_a_transaction_without_rows_is_none"
    transaction = _NeverNone


class _EndedByOthers(FileTransaction):
    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._visible = self._now_visible()

    def write(self, batch: pa.RecordBatch) -> None:
        if self._now_visible() != self._visible:
            raise RuntimeError("somebody else has committed")
        super().write(batch)

    def _now_visible(self) -> list[Path]:
        return sorted(self._stage.root.parent.glob("*.json"))


class EndsWithTheNextCommit(FlawedFiles):
    names = "test_a_transaction_is_open_and_writable_for_the_whole_interval"
    transaction = _EndedByOthers


# --- in the commit -----------------------------------------------------------------------------------------


class WantsTheFirstTaskFirst(FlawedTable):
    names = "test_commit_takes_the_tasks_in_any_order"

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if committables and committables[0].attempt.task != 0:
            return [Answer(outcome=Outcome.LOST, detail="where is task 0?") for _ in committables]
        return super().commit(committables)


class LooksBeforeItLocks(FlawedTable):
    names = "test_two_finishers_at_once_commit_once"

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        looked = committables and self.evidence(committables[0]) is Evidence.ABSENT
        if multiprocessing.parent_process() is not None:
            self._wait_until_both_have_looked()
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if looked:
                self.execute(f"DELETE FROM {LEDGER} WHERE epoch = ?", committables[0].attempt.epoch)
            return super().commit(committables)

    def _wait_until_both_have_looked(self) -> None:
        (self.path.parent / f"{os.getpid()}.looked").touch()
        while len(list(self.path.parent.glob("*.looked"))) < 2:
            time.sleep(0.01)


class BelievesAnyRowOfTheEpoch(FlawedTable):
    names = "test_a_second_timeline_is_noticed"

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        answers = super().commit(committables)
        there = committables and self.evidence(committables[0]) is Evidence.PRESENT
        return [Answer(outcome=Outcome.ALREADY) for _ in answers] if there and _unknown(answers) else answers

    def evidence(self, committable: Committable) -> Evidence:
        found = super().evidence(committable)
        return Evidence.PRESENT if found is Evidence.OTHER else found


class TakesPreparedForCommitted(FlawedTable):
    names = "test_evidence_is_absent_before_commit_and_present_after_it"

    def evidence(self, committable: Committable) -> Evidence:
        found = super().evidence(committable)
        first = committable.attempt.sink.generation == 1
        return Evidence.PRESENT if found is Evidence.ABSENT and first else found


class CountsOlderGenerations(FlawedTable):
    names = "test_an_older_generation_does_not_count_for_a_newer_one"

    def evidence(self, committable: Committable) -> Evidence:
        epoch = committable.attempt.epoch
        older = self.execute(f"SELECT 1 FROM {LEDGER} WHERE epoch = ? AND generation < 2", epoch)
        newer = committable.attempt.sink.generation > 1
        return Evidence.PRESENT if older and newer else super().evidence(committable)


# --- around it ---------------------------------------------------------------------------------------------


class CleansOneEpochTooMany(FlawedTable):
    names = "test_clean_up_comes_twice_and_spares_what_is_not_finished"

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        super().clean(identity, finished_through + 1)


class CleansTheEvidenceFirst(FlawedTable):
    names = "test_a_commit_after_clean_up_repeats_nothing"

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self.execute(f"DELETE FROM {LEDGER} WHERE epoch <= ?", finished_through)


class DiscardsEverything(FlawedTable):
    names = "test_discarding_undecided_epochs_spares_the_decided"

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return super().discard(identity, 0)


class SortsEpochsAsText(FlawedTable):
    names = "test_the_position_is_the_newest_evidence"

    def position(self, identity: SinkIdentity) -> Position | None:
        newest = super().position(identity)
        epochs = [str(epoch) for (epoch,) in self.execute(f"SELECT epoch FROM {LEDGER}")]
        return newest and msgspec.structs.replace(newest, epoch=int(max(epochs)))


class EmptiesTheTableWhenItsNameIsFree(FlawedTable):
    names = "test_opening_again_changes_nothing"

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        self.execute(f"DELETE FROM {self.table}")
        return []


class TakesExpressionsAlong(FlawedTable):
    names = "test_settings_travel_to_the_tasks_and_expressions_do_not"

    def __getstate__(self) -> dict[str, object]:
        return dict(self.__dict__)


def contract_of(sink: type[FlawedTable] | type[FlawedFiles]) -> type[SinkContract]:
    """The contract suite for a flawed sink."""
    return _of_table(sink) if issubclass(sink, FlawedTable) else _of_files(sink)


def _of_table(sink: type[FlawedTable]) -> type[SinkContract]:
    class OfTable(SinkContract):
        def make_sink(self) -> FlawedTable:
            return sink("numbers", self.folder / "target.db", table="numbers")

        def read_target(self) -> list[Row]:
            return rows_of_table(self.folder / "target.db")

    return OfTable


def _of_files(sink: type[FlawedFiles]) -> type[SinkContract]:
    class OfFiles(SinkContract):
        def make_sink(self) -> FlawedFiles:
            return sink("numbers", self.folder / "target", format="json")

        def read_target(self) -> list[Row]:
            return rows_of_json(self.folder / "target")

    return OfFiles


def _unknown(answers: Sequence[Answer]) -> bool:
    return any(answer.outcome is Outcome.UNKNOWN for answer in answers)
