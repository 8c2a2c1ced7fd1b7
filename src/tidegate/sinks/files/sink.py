"""The file sink: each task stages its files in a hidden folder; the commit renames them to their final names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import msgspec
import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.health import Finding, failed, ok
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
from tidegate.disk.durable import ensure_folder, sync_folder
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink, answer_all
from tidegate.sinks.files.check import folder_violations, row_violations
from tidegate.sinks.files.formats import CSV_WITH_HEADER, FORMATS
from tidegate.sinks.files.parts import CHECKSUM_UP_TO_BYTES, AttemptPart, flaws_of, parts_of
from tidegate.sinks.files.stage import FileShape, FileTransaction
from tidegate.sinks.marks import Marks
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.staging import StagedFiles, unwritable
from tidegate.sinks.standing import Entry, Standing, in_words, standing_of_epoch, standing_of_one

_ALREADY = Answer(outcome=Outcome.ALREADY, detail="every staged file is renamed")


class FileSink(TwoPhaseSink):
    """New files in one folder, exactly once.

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
    `position` returns it. So you may compact or remove visible files at any time. The hidden folder `.tidegate` in
    `path` belongs to the sink.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset(Level)

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
        self._demand(format in FORMATS, f"format one of {', '.join(map(repr, FORMATS))}", f"format={format!r}")
        self._demand(not header or format == "csv", 'header=True only with format="csv"', f"format={format!r}")
        for name, limit in (("max_file_rows", max_file_rows), ("target_file_bytes", target_file_bytes)):
            self._demand(limit is None or limit > 0, f"{name} above 0, or none", f"{name}={limit!r}")
        self.path = Path(os.path.abspath(path))
        self.shape = FileShape(
            format=CSV_WITH_HEADER if header else FORMATS[format],
            partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
            max_rows=max_file_rows,
            target_bytes=target_file_bytes,
            invalid_text=option_of(InvalidText, "invalid_text", invalid_text, uid),
        )
        self._is_url = "://" in str(path)
        self._stage = StagedFiles(self.path / ".tidegate", ".staged")
        self._claims = Marks(self.path / ".tidegate", "claim")

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "files"

    def describe(self) -> Mapping[str, object]:
        """Needs the folder alone: staged files carry their format in their names."""
        return {"path": str(self.path)}

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        return cls(uid, str(described["path"]), delivery=delivery)

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"files in {described['path']}"

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        flaw = unwritable(self.path)
        if flaw is not None:
            return [failed(what, flaw, "give this user the right to write there")]
        return [ok(what, f"{self.path} can be written")]

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        where = f"sink {self.uid!r}: {self.path}"
        if self._is_url:
            found = [
                TidegateError(
                    Code.SINK_UNUSABLE,
                    expected="a folder on a local disk",
                    found="a URL",
                    where=where,
                    next_step="give the sink a path= of this machine, without a scheme; remote storage can be"
                    " mounted there",
                )
            ]
        else:
            found = list(folder_violations(plan, self.path, self._stage.root, where))
        if plan.mode == "complete":
            found.append(
                TidegateError(
                    Code.OUTPUT_MODE,
                    expected="mode append or update",
                    found="mode complete: every epoch would append all rows again",
                    where=where,
                    next_step='use mode="update" or "append"',
                )
            )
        return [*found, *row_violations(plan.schema, self.shape, where)]

    def open(self, plan: SinkPlan) -> None:
        ensure_folder(self._stage.root)

    def position(self, identity: SinkIdentity) -> Position | None:
        """The newest epoch with a started commit. It is at or above each finished epoch, and at or below the last
        decided one.
        """
        newest = self._claims.newest(identity)
        return None if newest is None else newest.position

    # --- in a task -----------------------------------------------------------------------------------------

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return self.shape.refused(batch, self.path)

    def begin(self, attempt: Attempt) -> Transaction:
        return FileTransaction(self._stage, attempt, self.shape)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            answers = self._commit(committables)
            self._sync_what_is_visible(committables)
        except OSError as error:
            # full, missing, read-only, no rights: each of these can be repaired
            return answer_all(committables, Outcome.RETRY, f"{self.path}: {error}")
        return answers

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        try:
            answers = [self._show(committable) for committable in committables]
            self._sync_what_is_visible(committables)
        except OSError as error:
            return answer_all(committables, Outcome.RETRY, f"{self.path}: {error}")
        return answers

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            found, newest = self._claims.get(attempt.sink, attempt.epoch), self.position(attempt.sink)
            match standing_of_one(committable, found, newest):
                case Standing.OTHER:
                    return Evidence.OTHER
                case Standing.OPEN:
                    # A rename comes after the claim. Without a claim there was no rename.
                    return Evidence.ABSENT if self._epoch_folder(attempt).exists() else Evidence.UNKNOWN
                case Standing.SAME if self._is_staged(committable):
                    return Evidence.ABSENT
                case Standing.SAME | Standing.LATER:
                    renamed = not self._is_staged(committable) and all(
                        self._is_renamed(committable, part) for part in parts_of(committable)
                    )
            if renamed:
                self._sync_what_is_visible([committable])
        except OSError:
            return Evidence.UNKNOWN
        return Evidence.PRESENT if renamed else Evidence.UNKNOWN

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self._stage.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self._stage.discard(identity, from_epoch)

    def forget(self, identity: SinkIdentity) -> None:
        self._claims.forget(identity)

    # --- the renames ---------------------------------------------------------------------------------------

    def _commit(self, committables: Sequence[Committable]) -> list[Answer]:
        # First read the stage, then the claim. This order reveals a commit and clean-up of another process in between.
        flaws = [flaws_of(self._stage, committable) for committable in committables]
        standing = self._standing(committables)
        if standing is Standing.OPEN and any(flaws):
            waiting = Answer(outcome=Outcome.RETRY, detail="not renamed: another file of this epoch is lost")
            return [_lost(each) if each else waiting for each in flaws]
        if standing is Standing.OPEN:
            standing = self._claim(committables)
        if standing is Standing.SAME:
            return [self._rename(each, flaw) for each, flaw in zip(committables, flaws, strict=True)]
        return self._refused(committables, standing)

    def _show(self, committable: Committable) -> Answer:
        """Rename without a claim. Only the final files themselves can prove that an earlier try has renamed them."""
        flaws = flaws_of(self._stage, committable)
        lost = {
            part.number: flaws[part.number]
            for part in parts_of(committable)
            if part.number in flaws and not self._final(committable, part).exists()
        }
        return _lost(lost) if lost else self._rename(committable, {})

    def _rename(self, committable: Committable, flaws: dict[int, str]) -> Answer:
        """Rename the files that are still staged: all files of the attempt, or none if one of them is damaged."""
        if any(self._stage.file(committable.attempt, number).exists() for number in flaws):
            return _lost(flaws)
        renamed = [self._rename_part(committable, part) for part in parts_of(committable)]
        if Outcome.UNKNOWN in renamed:
            return _unknown("neither its staged file nor its final file exists")
        return Answer(outcome=Outcome.COMMITTED) if Outcome.COMMITTED in renamed else _ALREADY

    def _rename_part(self, committable: Committable, part: AttemptPart) -> Outcome:
        staged, final = self._stage.file(committable.attempt, part.number), self._final(committable, part)
        try:
            if part.folder and staged.exists():
                final.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(final)
        except FileNotFoundError:
            if staged.exists():
                raise  # the folder was removed in the meantime: try again
            return Outcome.ALREADY if self._is_renamed(committable, part) else Outcome.UNKNOWN
        return Outcome.COMMITTED

    def _is_renamed(self, committable: Committable, part: AttemptPart) -> bool:
        """True if a claimed file that is not staged was renamed. If the folder of its epoch still exists, only a rename
        can have taken the file. If the folder is gone, only the final file proves the rename, unless a user has removed
        it.
        """
        if self._epoch_folder(committable.attempt).exists():
            return True
        return part.seal.flaw_of(self._final(committable, part), checksum_up_to_bytes=CHECKSUM_UP_TO_BYTES) is None

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
        return not self._is_staged(committable) and all(
            self._final(committable, part).exists() for part in parts_of(committable)
        )

    def _is_staged(self, committable: Committable) -> bool:
        """True if at least one file of the attempt is still staged."""
        return any(self._stage.file(committable.attempt, part.number).exists() for part in parts_of(committable))

    def _sync_what_is_visible(self, committables: Sequence[Committable]) -> None:
        """Make all renames durable, also those of another process, which may have died before its sync."""
        for folder in sorted({part.folder for each in committables for part in parts_of(each)} - {""}):
            for level in (self.path / folder, *(self.path / folder).parents):
                if level == self.path:
                    break
                with suppress(FileNotFoundError):  # the user has removed the folder with its files
                    sync_folder(level)
        sync_folder(self.path)
        epoch_folder = self._epoch_folder(committables[0].attempt)
        if epoch_folder.exists():
            sync_folder(epoch_folder)

    def _epoch_folder(self, attempt: Attempt) -> Path:
        return self._stage.epoch(attempt.sink, attempt.epoch)

    def _final(self, committable: Committable, part: AttemptPart) -> Path:
        # the suffix at staging time: the program may use another format now
        return self.path / part.folder / final_name(committable.attempt, committable.handle["suffix"], part.number)

    def _demand(self, holds: bool, expected: str, found: str) -> None:
        if not holds:
            raise TidegateError(
                Code.OPTION_UNKNOWN,
                expected=expected,
                found=found,
                where=f"sink {self.uid!r}",
                next_step=f"give the sink {expected}",
            )


def final_name(attempt: Attempt, suffix: str, number: int = 0) -> str:
    """The final name of a file. `unique` separates sinks and attempts that share the rest."""
    sink = attempt.sink
    # Readers treat a leading `_` or `.` as hidden, so the name keeps only plain characters of the job's name.
    job = re.sub(r"[^A-Za-z0-9]+", "-", sink.job).strip("-") or "job"
    job_id = re.sub(r"[^A-Za-z0-9]+", "-", sink.job_id)
    unique = hashlib.sha256(msgspec.json.encode(attempt, order="sorted")).hexdigest()[:12]
    numbered = f"_{number:05}" if number else ""  # `_` sorts after `.`: so the order of names is the order of rows
    return f"{job}-{job_id}-g{sink.generation}-e{attempt.epoch:012}-t{attempt.task:05}-{unique}{numbered}{suffix}"


def _unknown(detail: str) -> Answer:
    return Answer(outcome=Outcome.UNKNOWN, detail=detail)


def _lost(flaws: dict[int, str]) -> Answer:
    return Answer(outcome=Outcome.LOST, detail="; ".join(flaws.values()))
