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
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.files.stage import LocalStage
from tidegate.sinks.files.transaction import FileTransaction, _MeasuredFile
from tidegate.sinks.rows import RowRefused, RowWriter
from tidegate.sinks.sqlite.disk import connected
from tidegate.sinks.sqlite.ledger import LEDGER, record
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.sinks.staging import StagedFiles
from tidegate.sinks.standing import Entry
from tidegate.testing.contract import IDENTITY, Row, SinkContract

TWO_FINISHERS_AT = 0
"""The epoch of the suite's test with two finishers; the kills, which have one at a time, come after it."""

FEW_KILLS = 3
"""Places at which a commit is killed where that is not what its flaw is about."""


class FlawedTable(SQLiteSink):
    names: ClassVar[str]
    kills: ClassVar[int] = FEW_KILLS

    def execute(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        with connected(self.path) as target:
            return target.execute(statement, values).fetchall()


class FlawedFiles(FileSink):
    names: ClassVar[str]
    kills: ClassVar[int] = FEW_KILLS
    transaction: ClassVar[type[FileTransaction]] = FileTransaction

    def begin(self, attempt: Attempt) -> Transaction:
        return self.transaction(self.place.stage, attempt, self.shape)


class _OnADisk(FileTransaction):
    @property
    def files(self) -> StagedFiles:
        assert isinstance(self._stage, LocalStage)
        return self._stage.files


# --- in the tasks ------------------------------------------------------------------------------------------


class _Preview(_OnADisk):
    def pre_commit(self) -> Committable | None:
        committable = super().pre_commit()
        staged = self.files.file(self._attempt)
        if committable is not None:
            (self.files.root.parent / f"preview-{staged.stem}.json").write_bytes(staged.read_bytes())
        return committable


class ShowsAPreview(FlawedFiles):
    names = "test_nothing_is_visible_before_commit"
    transaction = _Preview

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        self._remove_previews()
        return super().commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        self._remove_previews()
        return super().commit_straight(committables)

    def _remove_previews(self) -> None:
        for preview in self.folder.local().glob("preview-*"):
            preview.unlink(missing_ok=True)


class _HeldByTheProcess(_OnADisk):
    def pre_commit(self) -> Committable | None:
        committable = super().pre_commit()
        staged = self.files.file(self._attempt)
        with suppress(FileNotFoundError):
            descriptor = os.open(staged, os.O_RDONLY)  # never closed: it is all that is left of the file
            staged.unlink()
            staged.symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
        return committable


class DiesWithItsProcess(FlawedFiles):
    names = "test_a_prepared_transaction_outlives_the_process_that_prepared_it"
    transaction = _HeldByTheProcess


class _Continued(_OnADisk):
    """Goes on in a staged file that it finds, if it is `of_this_process` or not."""

    of_this_process: ClassVar[bool]
    created: ClassVar[set[Path]] = set()

    def _create(self, number: int, schema: pa.Schema) -> tuple[_MeasuredFile, RowWriter]:
        staged = self.files.file(self._attempt, number)
        goes_on = staged.exists() and (staged in self.created) is self.of_this_process
        left = staged.read_bytes() if goes_on else b""
        file, writer = super()._create(number, schema)
        file.write(left)
        self.created.add(staged)
        return file, writer


class _ContinuedByOthers(_Continued):
    of_this_process = False


class GoesOnWhereTheFirstAttemptStopped(FlawedFiles):
    names = "test_a_retried_task_does_not_see_its_predecessor"
    transaction = _ContinuedByOthers

    def begin(self, attempt: Attempt) -> Transaction:
        return super().begin(msgspec.structs.replace(attempt, task_attempt=0))


class _ContinuedByItself(_Continued):
    of_this_process = True


class GoesOnWhereItBegan(FlawedFiles):
    names = "test_an_attempt_that_is_begun_again_begins_empty"
    transaction = _ContinuedByItself


class _SavedAnyway(_OnADisk):
    def abort(self) -> None:
        if self.pre_commit() is None:
            return
        staged = self.files.file(self._attempt)
        staged.rename(self.files.root.parent / f"{staged.stem}.json")


class SavesWhatIsAborted(FlawedFiles):
    names = "test_an_aborted_transaction_leaves_nothing_visible"
    transaction = _SavedAnyway


class _NeverNone(_OnADisk):
    def pre_commit(self) -> Committable:
        empty = Committable(attempt=self._attempt, rows=0, digest=committable_digest(self._attempt, ""))
        return super().pre_commit() or empty


class CommitsEmptyTransactions(FlawedFiles):
    names = "test_a_transaction_without_rows_is_none"
    transaction = _NeverNone


class _EndedByOthers(_OnADisk):
    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._visible = self._now_visible()

    def write(self, batch: pa.RecordBatch) -> None:
        if self._now_visible() != self._visible:
            raise RuntimeError("somebody else has committed")
        super().write(batch)

    def _now_visible(self) -> list[Path]:
        return sorted(self.files.root.parent.glob("*.json"))


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
        if multiprocessing.parent_process() is not None and committables[0].attempt.epoch == TWO_FINISHERS_AT:
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
        ours = committable.attempt.sink.job_id == IDENTITY.job_id
        return Evidence.PRESENT if found is Evidence.OTHER and ours else found


class TakesPreparedForCommitted(FlawedTable):
    names = "test_evidence_is_absent_before_commit_and_present_after_it"

    def evidence(self, committable: Committable) -> Evidence:
        found = super().evidence(committable)
        prepared = self.stage.file(committable.attempt).exists() and committable.attempt.sink.generation == 1
        return Evidence.PRESENT if found is Evidence.ABSENT and prepared else found


class CountsOlderGenerations(FlawedTable):
    names = "test_an_older_generation_does_not_count_for_a_newer_one"

    def evidence(self, committable: Committable) -> Evidence:
        epoch = committable.attempt.epoch
        older = self.execute(f"SELECT 1 FROM {LEDGER} WHERE epoch = ? AND generation < 2", epoch)
        newer = committable.attempt.sink.generation > 1
        return Evidence.PRESENT if older and newer else super().evidence(committable)


class WritesTheEvidenceAfterTheRows(FlawedTable):
    names = "test_a_commit_that_is_killed_anywhere_is_finished_by_the_next"
    kills = SinkContract.kills_at_most

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not committables or self.evidence(committables[0]) is not Evidence.ABSENT:
                return super().commit(committables)
            answers = super().commit_straight(committables)
            if all(answer.outcome is Outcome.COMMITTED for answer in answers):
                with connected(self.path) as target:
                    record(target, committables[0].attempt.sink, Entry.of(committables))
            return answers


class TakesWhatIsGoneForCommitted(FlawedTable):
    names = "test_what_is_lost_is_never_taken_for_committed"

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        answers = super().commit(committables)
        return [Answer(outcome=Outcome.ALREADY) if each.outcome is Outcome.LOST else each for each in answers]


class CommitsWhatComesTooLate(FlawedTable):
    names = "test_an_epoch_below_a_committed_one_comes_too_late"

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if committables and self.evidence(committables[0]) is Evidence.UNKNOWN:
            self.execute(f"DELETE FROM {LEDGER} WHERE epoch > ?", committables[0].attempt.epoch)
        return super().commit(committables)


class ForgetsOtherJobIds(FlawedTable):
    names = "test_a_checkpoint_that_was_begun_anew_is_kept_out"

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if committables:
            sink = committables[0].attempt.sink
            self.execute(f"DELETE FROM {LEDGER} WHERE job = ? AND job_id <> ?", sink.job, sink.job_id)
        return super().commit(committables)


class LooksForEvidenceWhereThereIsNone(FlawedTable):
    names = "test_at_least_once_shows_an_epoch_that_runs_again"

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return super().commit(committables)


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


class DiscardsByPrefix(FlawedTable):
    names = "test_others_of_a_like_name_are_left_alone"

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        shorter = msgspec.structs.replace(
            identity, query=identity.query.removesuffix("-2"), sink=identity.sink.removesuffix("-2")
        )
        return super().discard(identity, from_epoch) + super().discard(shorter, from_epoch)


class AbortsByDeleting(FlawedTable):
    names = "test_aborting_what_is_open_deletes_no_journal"

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return [str(file) for file in self.stage.root.glob("**/*.stage")]

    def abort(self, transactions: Sequence[str]) -> None:
        for name in transactions:
            Path(name).unlink(missing_ok=True)


class SortsEpochsAsText(FlawedTable):
    names = "test_the_position_is_the_newest_evidence"

    def position(self, identity: SinkIdentity) -> Position | None:
        newest = super().position(identity)
        ours = (identity.job, identity.query, identity.sink)
        found = self.execute(f"SELECT epoch FROM {LEDGER} WHERE job = ? AND query = ? AND sink = ?", *ours)
        return newest and msgspec.structs.replace(newest, epoch=int(max(str(epoch) for (epoch,) in found)))


class EmptiesTheTableWhenItsNameIsFree(FlawedTable):
    names = "test_opening_again_changes_nothing"

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        self.execute(f"DELETE FROM {self.table}")
        return []


class RefusesNothingBeforeItIsWritten(FlawedTable):
    names = "test_refused_rows_are_those_that_write_cannot_take"

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return ()


class TakesExpressionsAlong(FlawedTable):
    names = "test_settings_travel_to_the_tasks_and_expressions_do_not"

    def __getstate__(self) -> dict[str, object]:
        return dict(self.__dict__)


def contract_of(sink: type[FlawedTable] | type[FlawedFiles]) -> type[SinkContract]:
    """The contract suite for a flawed sink."""
    return _of_table(sink) if issubclass(sink, FlawedTable) else _of_files(sink)


def _of_table(sink: type[FlawedTable]) -> type[SinkContract]:
    class OfTable(SinkContract):
        kills_at_most = sink.kills

        def make_sink(self) -> FlawedTable:
            return sink("numbers", self.folder / "target.db", table="numbers")

        def read_target(self) -> list[Row]:
            return rows_of_table(self.folder / "target.db")

    return OfTable


def _of_files(sink: type[FlawedFiles]) -> type[SinkContract]:
    class OfFiles(SinkContract):
        kills_at_most = sink.kills

        def make_sink(self) -> FlawedFiles:
            return sink("numbers", self.folder / "target", format="json")

        def read_target(self) -> list[Row]:
            return rows_of_json(self.folder / "target")

    return OfFiles


def _unknown(answers: Sequence[Answer]) -> bool:
    return any(answer.outcome is Outcome.UNKNOWN for answer in answers)
