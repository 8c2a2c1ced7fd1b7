"""The commit phase of a file sink, on a driver: it claims an epoch, then renames the staged files to their final
names.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidegate.core.errors import TidegateError
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome
from tidegate.disk.durable import sync_folder
from tidegate.disk.side_by_side import side_by_side
from tidegate.sinks.base import answer_all
from tidegate.sinks.files.names import final_name
from tidegate.sinks.files.parts import CHECKSUM_UP_TO_BYTES, AttemptPart, flaws_of, parts_of
from tidegate.sinks.marks import Marks, is_of_storage
from tidegate.sinks.staging import StagedFiles
from tidegate.sinks.standing import Standing, in_words, standing_of_one

_ALREADY = Answer(outcome=Outcome.ALREADY, detail="every staged file is renamed")


@dataclass(frozen=True, slots=True)
class FileCommitter:
    """Renames prepared files of a sink into the folder `path`, and finds out which of them were renamed."""

    path: Path
    stage: StagedFiles
    claims: Marks

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            answers = self._commit(committables)
            self._sync_what_is_visible(committables)
        except OSError as error:
            # full, missing, read-only, no rights: each of these can be repaired
            return answer_all(committables, Outcome.RETRY, f"{self.path}: {error}")
        except TidegateError as error:
            if not is_of_storage(error):
                raise
            return answer_all(committables, Outcome.RETRY, f"{error.where}: {error.found}")
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
            found, newest = self.claims.get(attempt.sink, attempt.epoch), self.claims.position(attempt.sink)
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
        except TidegateError as error:
            if not is_of_storage(error):
                raise
            return Evidence.UNKNOWN
        return Evidence.PRESENT if renamed else Evidence.UNKNOWN

    # --- the renames ---------------------------------------------------------------------------------------

    def _commit(self, committables: Sequence[Committable]) -> list[Answer]:
        # First read the stage, then the claim. This order reveals a commit and clean-up of another process in between.
        flaws = list(side_by_side(partial(flaws_of, self.stage), committables, at_least=2))
        standing = self.claims.standing(committables)
        if standing is Standing.OPEN and any(flaws):
            waiting = Answer(outcome=Outcome.RETRY, detail="not renamed: another file of this epoch is lost")
            return [_lost(each) if each else waiting for each in flaws]
        if standing is Standing.OPEN:
            standing = self.claims.claim(committables)
        if standing is Standing.SAME:
            return [self._rename(each, flaw) for each, flaw in zip(committables, flaws, strict=True)]
        return self._refused(committables, standing)

    def _show(self, committable: Committable) -> Answer:
        """Rename without a claim. Only the final files themselves can prove that an earlier try has renamed them."""
        flaws = flaws_of(self.stage, committable)
        lost = {
            part.number: flaws[part.number]
            for part in parts_of(committable)
            if part.number in flaws and not self._final(committable, part).exists()
        }
        return _lost(lost) if lost else self._rename(committable, {})

    def _rename(self, committable: Committable, flaws: dict[int, str]) -> Answer:
        """Rename the files that are still staged: all files of the attempt, or none if one of them is damaged."""
        if any(self.stage.file(committable.attempt, number).exists() for number in flaws):
            return _lost(flaws)
        renamed = [self._rename_part(committable, part) for part in parts_of(committable)]
        if Outcome.UNKNOWN in renamed:
            return _unknown("neither its staged file nor its final file exists")
        return Answer(outcome=Outcome.COMMITTED) if Outcome.COMMITTED in renamed else _ALREADY

    def _rename_part(self, committable: Committable, part: AttemptPart) -> Outcome:
        staged, final = self.stage.file(committable.attempt, part.number), self._final(committable, part)
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

    def _refused(self, committables: Sequence[Committable], standing: Standing) -> list[Answer]:
        attempt = committables[0].attempt
        told = in_words(standing, attempt.sink, attempt.epoch, self.claims.position(attempt.sink))
        if standing is Standing.LATER and all(self._is_visible(committable) for committable in committables):
            return [_ALREADY for _ in committables]
        return [_unknown(f"{self.path}: {told}") for _ in committables]

    def _is_visible(self, committable: Committable) -> bool:
        return not self._is_staged(committable) and all(
            self._final(committable, part).exists() for part in parts_of(committable)
        )

    def _is_staged(self, committable: Committable) -> bool:
        """True if at least one file of the attempt is still staged."""
        return any(self.stage.file(committable.attempt, part.number).exists() for part in parts_of(committable))

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
        return self.stage.epoch(attempt.sink, attempt.epoch)

    def _final(self, committable: Committable, part: AttemptPart) -> Path:
        # the suffix at staging time: the program may use another format now
        return self.path / part.folder / final_name(committable.attempt, committable.handle["suffix"], part.number)


def _unknown(detail: str) -> Answer:
    return Answer(outcome=Outcome.UNKNOWN, detail=detail)


def _lost(flaws: dict[int, str]) -> Answer:
    return Answer(outcome=Outcome.LOST, detail="; ".join(flaws.values()))
