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
from tidegate.sinks.files.parts import CHECKSUM_UP_TO_BYTES, Part, flaws_of, parts_of
from tidegate.sinks.files.stage import FileShape, FileTransaction
from tidegate.sinks.marks import Marks
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.staging import Stage, unwritable
from tidegate.sinks.standing import Entry, Standing, in_words, standing_of_epoch, standing_of_one

_ALREADY = Answer(outcome=Outcome.ALREADY, detail="every staged file has been renamed")


class FileSink(TwoPhaseSink):
    """New files in one folder, exactly once.

    `format` is "parquet", "json" (one JSON object a line), "csv" or "text" (one string column, a line a row); with
    `header` each CSV file begins with the names of the columns. `partition_by` puts the rows into Hive's folders
    `<column>=<value>`, as Spark does: the columns stand in the folders' names only, and nulls and empty texts both
    come back as null. A file is ended, and another one begun, at `max_file_rows` rows or at about `target_file_bytes`.
    `invalid_text`: a row with a text that is not UTF-8 is refused ("refuse"), or its text gets U+FFFD ("replace").

    A task with rows gives one file or, where it is partitioned or limited, several, each
    `<job>-<job id>-g<generation>-e<epoch>-t<task>-<attempt>[_<number>].<format>`, visible all at once. The files of an
    epoch appear one after the other. Several jobs and sinks may write to one folder.

    What proves a commit is the rename: nothing else takes a staged file out of its epoch's folder. Before the first
    rename of an epoch a claim names its transactions (`tidegate.sinks.marks`); it keeps a second timeline out and
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
        self._stage = Stage(self.path / ".tidegate", ".staged")
        self._claims = Marks(self.path / ".tidegate", "claim")

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "files"

    def describe(self) -> Mapping[str, object]:
        """The folder alone: what is staged says itself in which format it is."""
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
                    next_step="give the sink a path= of this machine, without a scheme; a remote storage can be"
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
        """The newest epoch whose commit has begun: at least every finished one, and the last one decided at most."""
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
            # Full, gone, read-only, no rights: somebody can mend all of them.
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
                    # A rename comes after the claim, so there was none.
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
        # The stage first, the claim after it: whoever committed and cleaned up meanwhile is then seen.
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
        """Rename without a claim: so only the final files themselves prove that an earlier try has renamed them."""
        flaws = flaws_of(self._stage, committable)
        lost = {
            part.number: flaws[part.number]
            for part in parts_of(committable)
            if part.number in flaws and not self._final(committable, part).exists()
        }
        return _lost(lost) if lost else self._rename(committable, {})

    def _rename(self, committable: Committable, flaws: dict[int, str]) -> Answer:
        """Rename what is still staged: all files of the attempt, or none when one of them is flawed."""
        if any(self._stage.file(committable.attempt, number).exists() for number in flaws):
            return _lost(flaws)
        renamed = [self._rename_part(committable, part) for part in parts_of(committable)]
        if Outcome.UNKNOWN in renamed:
            return _unknown("neither its stage nor its file is there")
        return Answer(outcome=Outcome.COMMITTED) if Outcome.COMMITTED in renamed else _ALREADY

    def _rename_part(self, committable: Committable, part: Part) -> Outcome:
        staged, final = self._stage.file(committable.attempt, part.number), self._final(committable, part)
        try:
            if part.folder and staged.exists():
                final.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(final)
        except FileNotFoundError:
            if staged.exists():
                raise  # somebody removed the folder meanwhile: it is tried again
            return Outcome.ALREADY if self._is_renamed(committable, part) else Outcome.UNKNOWN
        return Outcome.COMMITTED

    def _is_renamed(self, committable: Committable, part: Part) -> bool:
        """Whether a claimed file, which is not in the stage, was renamed. With its epoch's folder still there
        nothing else can have taken it; without it only the file itself proves it, if the user has left it."""
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
        """Whether any file of the attempt is still in the stage."""
        return any(self._stage.file(committable.attempt, part.number).exists() for part in parts_of(committable))

    def _sync_what_is_visible(self, committables: Sequence[Committable]) -> None:
        """Make the renames durable, also those of somebody else, who may have died before his own sync."""
        for folder in sorted({part.folder for each in committables for part in parts_of(each)} - {""}):
            for level in (self.path / folder, *(self.path / folder).parents):
                if level == self.path:
                    break
                with suppress(FileNotFoundError):  # the user removed it, and what was in it
                    sync_folder(level)
        sync_folder(self.path)
        epoch_folder = self._epoch_folder(committables[0].attempt)
        if epoch_folder.exists():
            sync_folder(epoch_folder)

    def _epoch_folder(self, attempt: Attempt) -> Path:
        return self._stage.epoch(attempt.sink, attempt.epoch)

    def _final(self, committable: Committable, part: Part) -> Path:
        # The format it was staged in: the program may have another one by now.
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
    """The name a committed file gets. `unique` tells apart the sinks and attempts that share the rest."""
    sink = attempt.sink
    # Readers take a leading `_` or `.` for hidden, so of the job's name only plain characters are shown.
    job = re.sub(r"[^A-Za-z0-9]+", "-", sink.job).strip("-") or "job"
    job_id = re.sub(r"[^A-Za-z0-9]+", "-", sink.job_id)
    unique = hashlib.sha256(msgspec.json.encode(attempt, order="sorted")).hexdigest()[:12]
    numbered = f"_{number:05}" if number else ""  # `_` sorts behind `.`: by name, the files are in order of rows
    return f"{job}-{job_id}-g{sink.generation}-e{attempt.epoch:012}-t{attempt.task:05}-{unique}{numbered}{suffix}"


def _unknown(detail: str) -> Answer:
    return Answer(outcome=Outcome.UNKNOWN, detail=detail)


def _lost(flaws: dict[int, str]) -> Answer:
    return Answer(outcome=Outcome.LOST, detail="; ".join(flaws.values()))
