"""The file sink: each task stages one file in a hidden folder; the commit renames it to its final name."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    Outcome,
    Position,
    SinkIdentity,
)
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.claims import Claims
from tidegate.sinks.file_formats import FORMATS
from tidegate.sinks.file_stage import FileTransaction
from tidegate.sinks.staging import Seal, Stage, make_folder, sync_folder, unwritable
from tidegate.sinks.standing import Entry, Standing, in_words, standing_of_epoch, standing_of_one

CHECKSUM_UP_TO_BYTES = 64 * 1024 * 1024
"""At commit the checksum of larger files is not computed again; their size is compared. They were synced."""

_ALREADY = Answer(outcome=Outcome.ALREADY, detail="the staged file has been renamed")


class FileSink(TwoPhaseSink):
    """New files in one folder, exactly once: `format` is "parquet" or "json" (one JSON object a line).

    A task with rows gives one file, `<job>-<job id>-g<generation>-e<epoch>-t<task>-<attempt>.<format>`, visible
    all at once. The files of an epoch appear one after the other. Several jobs and sinks may write to one folder.

    What proves a commit is the rename: nothing else takes a staged file out of its epoch's folder. Before the first
    rename of an epoch a claim names its transactions (`tidegate.sinks.claims`); it keeps a second timeline out and
    is what `position` reports. So the visible files may be compacted or removed at any time, and the hidden folder
    `.tidegate` in `path` belongs to the sink.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset(Level)

    def __init__(
        self,
        uid: str,
        path: str | os.PathLike[str],
        *,
        format: str = "parquet",
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        if format not in FORMATS:
            raise TidegateError(
                Code.OPTION_UNKNOWN,
                expected=f"format one of {', '.join(map(repr, FORMATS))}",
                found=f"format={format!r}",
                where=f"sink {uid!r}",
                next_step="choose one of these",
            )
        self.path = Path(os.path.abspath(path))
        self.format = format
        self._is_url = "://" in str(path)
        self._stage = Stage(self.path / ".tidegate", ".staged")
        self._claims = Claims(self.path / ".tidegate")

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return [*self._folder_violations(plan), *self._row_violations(plan)]

    def open(self, plan: SinkPlan) -> None:
        make_folder(self._stage.root)

    def position(self, identity: SinkIdentity) -> Position | None:
        """The newest epoch whose commit has begun: at least every finished one, and the last one decided at most."""
        newest = self._claims.newest(identity)
        return None if newest is None else newest.position

    # --- in a task -----------------------------------------------------------------------------------------

    def begin(self, attempt: Attempt) -> Transaction:
        return FileTransaction(self._stage, attempt, FORMATS[self.format])

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            answers = self._commit(committables)
            self._sync_what_is_visible(committables[0])
        except OSError as error:
            # Full, gone, read-only, no rights: somebody can mend all of them.
            return [Answer(outcome=Outcome.RETRY, detail=f"{self.path}: {error}") for _ in committables]
        return answers

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        try:
            answers = [self._rename(each, self._flaw(each)) for each in committables]
            self._sync_what_is_visible(committables[0])
        except OSError as error:
            return [Answer(outcome=Outcome.RETRY, detail=f"{self.path}: {error}") for _ in committables]
        return answers

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            found, newest = self._claims.get(attempt.sink, attempt.epoch), self.position(attempt.sink)
            match standing_of_one(committable, found, newest):
                case Standing.OTHER:
                    return Evidence.OTHER
                case Standing.OPEN:
                    # A rename comes after the claim, so there was none.
                    return Evidence.ABSENT if self._epoch_folder(attempt).exists() else Evidence.UNKNOWN
                case Standing.SAME if self._stage.file(attempt).exists():
                    return Evidence.ABSENT
                case Standing.SAME | Standing.LATER:
                    renamed = self._renamed(committable)
            if renamed:
                self._sync_what_is_visible(committable)
        except OSError:
            return Evidence.UNKNOWN
        return Evidence.PRESENT if renamed else Evidence.UNKNOWN

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self._stage.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self._stage.discard(identity, from_epoch)

    # --- the renames ---------------------------------------------------------------------------------------

    def _commit(self, committables: Sequence[Committable]) -> list[Answer]:
        # The stage first, the claim after it: whoever committed and cleaned up meanwhile is then seen.
        flaws = [self._flaw(committable) for committable in committables]
        standing = self._standing(committables)
        if standing is Standing.OPEN and any(flaws):
            waiting = Answer(outcome=Outcome.RETRY, detail="not renamed: another file of this epoch is lost")
            return [Answer(outcome=Outcome.LOST, detail=flaw) if flaw else waiting for flaw in flaws]
        if standing is Standing.OPEN:
            standing = self._claim(committables)
        if standing is Standing.SAME:
            return [self._rename(each, flaw) for each, flaw in zip(committables, flaws, strict=True)]
        return self._refused(committables, standing)

    def _rename(self, committable: Committable, flaw: str | None) -> Answer:
        staged = self._stage.file(committable.attempt)
        if flaw and staged.exists():
            return Answer(outcome=Outcome.LOST, detail=flaw)
        try:
            staged.rename(self._final(committable))
        except FileNotFoundError:
            return _ALREADY if self._renamed(committable) else _unknown("neither its stage nor its file is there")
        return Answer(outcome=Outcome.COMMITTED)

    def _renamed(self, committable: Committable) -> bool:
        """Whether the claimed file, which is not in the stage, was renamed. With its epoch's folder still there
        nothing else can have taken it; without it only the file itself proves it, if the user has left it."""
        if self._epoch_folder(committable.attempt).exists():
            return True
        final = self._final(committable)
        return Seal.carried_by(committable).flaw_of(final, checksum_up_to_bytes=CHECKSUM_UP_TO_BYTES) is None

    def _claim(self, committables: Sequence[Committable]) -> Standing:
        wanted = Entry.of(committables)
        stands = self._claims.put(committables[0].attempt.sink, wanted)
        return Standing.SAME if stands == wanted else Standing.OTHER

    def _standing(self, committables: Sequence[Committable]) -> Standing:
        wanted, identity = Entry.of(committables), committables[0].attempt.sink
        return standing_of_epoch(wanted, self._claims.get(identity, wanted.epoch), self.position(identity))

    def _refused(self, committables: Sequence[Committable], standing: Standing) -> list[Answer]:
        attempt = committables[0].attempt
        told = in_words(standing, attempt.sink, attempt.epoch, self.position(attempt.sink))
        if standing is Standing.LATER and all(self._is_visible(committable) for committable in committables):
            return [_ALREADY for _ in committables]
        return [_unknown(f"{self.path}: {told}") for _ in committables]

    def _is_visible(self, committable: Committable) -> bool:
        return self._final(committable).exists() and not self._stage.file(committable.attempt).exists()

    def _flaw(self, committable: Committable) -> str | None:
        staged = self._stage.file(committable.attempt)
        return Seal.carried_by(committable).flaw_of(staged, checksum_up_to_bytes=CHECKSUM_UP_TO_BYTES)

    def _sync_what_is_visible(self, committable: Committable) -> None:
        """Make the renames durable, also those of somebody else, who may have died before his own sync."""
        sync_folder(self.path)
        if self._epoch_folder(committable.attempt).exists():
            sync_folder(self._epoch_folder(committable.attempt))

    def _epoch_folder(self, attempt: Attempt) -> Path:
        return self._stage.epoch(attempt.sink, attempt.epoch)

    def _final(self, committable: Committable) -> Path:
        # The format it was staged in: the program may have another one by now.
        return self.path / final_name(committable.attempt, committable.handle["suffix"])

    # --- what stands against a start -----------------------------------------------------------------------

    def _folder_violations(self, plan: SinkPlan) -> Iterator[TidegateError]:
        if self._is_url:
            yield self._violation(
                Code.SINK_UNUSABLE, "a folder on a local disk", "a URL", "give a path without a scheme"
            )
            return
        if not plan.local_master:
            yield self._violation(
                Code.SINK_LOCAL_ONLY,
                "a session whose tasks run on this machine",
                "a cluster master",
                "use a sink that the executors reach, or a local master",
            )
        reason = unwritable(self._stage.root) or self._other_disk()
        if reason:
            yield self._violation(
                Code.SINK_UNUSABLE, "a folder that can be written and renamed in", reason, "give another path"
            )

    def _row_violations(self, plan: SinkPlan) -> Iterator[TidegateError]:
        if plan.mode == "complete":
            yield self._violation(
                Code.OUTPUT_MODE,
                "mode append or update",
                "mode complete: every epoch would append all rows again",
                'use mode="update" or "append"',
            )
        for field in fields_of(plan.schema):
            if not FORMATS[self.format].has(field.type):
                yield self._violation(
                    Code.SCHEMA_MISMATCH,
                    f"column types that {self.format} has",
                    f"{field.name!r} is {field.type}",
                    "cast the column in select=[...]",
                )
        counted = Counter(name.lower() for name in plan.schema.names)
        for name in (name for name, times in counted.items() if times > 1):
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                "column names that differ in more than case",
                f"several columns named {name!r}",
                "rename them in select=[...]",
            )

    def _other_disk(self) -> str | None:
        stage = self._stage.root
        if stage.exists() and stage.stat().st_dev != self.path.stat().st_dev:
            return f"{stage} is on another disk than {self.path}: a rename between them is not atomic"
        return None

    def _violation(self, code: Code, expected: str, found: str, next_step: str) -> TidegateError:
        where = f"sink {self.uid!r}: {self.path}"
        return TidegateError(code, expected=expected, found=found, where=where, next_step=next_step)


def final_name(attempt: Attempt, suffix: str) -> str:
    """The name a committed file gets. Its last part tells apart the sinks and attempts that share the rest."""
    sink = attempt.sink
    # Readers take a leading `_` or `.` for hidden, so of the job's name only plain characters are shown.
    job = re.sub(r"[^A-Za-z0-9]+", "-", sink.job).strip("-") or "job"
    job_id = re.sub(r"[^A-Za-z0-9]+", "-", sink.job_id)
    unique = hashlib.sha256(msgspec.json.encode(attempt, order="sorted")).hexdigest()[:12]
    return f"{job}-{job_id}-g{sink.generation}-e{attempt.epoch:012}-t{attempt.task:05}-{unique}{suffix}"


def _unknown(detail: str) -> Answer:
    return Answer(outcome=Outcome.UNKNOWN, detail=detail)
