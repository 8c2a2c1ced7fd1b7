"""The commit phase of a file sink whose folder is not on a disk: it claims an epoch, then publishes its staged files.

It follows the rules of `committer.py`. Two things differ. The storage itself compares and publishes
(`tidegate.storages.target_files`). And where publishing copies, a staged file stays until its epoch is done, so its
absence does not prove that it was published: the published file does, or the record of the newest done epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.errors import TidegateError
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome
from tidegate.disk.side_by_side import side_by_side
from tidegate.sinks.base import answer_all
from tidegate.sinks.files.names import final_name
from tidegate.sinks.files.newest_done import NewestDone
from tidegate.sinks.files.parts import AttemptPart, parts_of
from tidegate.sinks.files.remote_stage import RemoteStage, proof_of
from tidegate.sinks.marks import Marks, is_of_storage
from tidegate.sinks.standing import Standing, in_words, standing_of_one
from tidegate.storages.target_files import Fit, Published, TargetFiles

_ALREADY = Answer(outcome=Outcome.ALREADY, detail="every staged file is published")


@dataclass(frozen=True, slots=True)
class RemoteCommitter:
    """Publishes prepared files of a sink, and finds out which of them were published."""

    stage: RemoteStage
    claims: Marks
    done: NewestDone

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            return self._commit(committables)
        except TidegateError as error:
            return _later(committables, error)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        try:
            return list(side_by_side(self._show, committables))
        except TidegateError as error:
            return _later(committables, error)

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            found, newest = self.claims.get(attempt.sink, attempt.epoch), self.claims.position(attempt.sink)
            match standing_of_one(committable, found, newest):
                case Standing.OTHER:
                    return Evidence.OTHER
                case Standing.OPEN:
                    # A file is published after the claim. Without a claim none was.
                    return Evidence.ABSENT if self._is_staged(committable) else Evidence.UNKNOWN
                case Standing.SAME:
                    return self._evidence_of_the_claimed(committable)
                case Standing.LATER:
                    return Evidence.PRESENT if self._is_visible(committable) else Evidence.UNKNOWN
        except TidegateError as error:
            if not is_of_storage(error):
                raise
            return Evidence.UNKNOWN

    # --- evidence ------------------------------------------------------------------------------------------

    def _evidence_of_the_claimed(self, committable: Committable) -> Evidence:
        if self._is_visible(committable) or self._is_done(committable.attempt):
            return Evidence.PRESENT
        if self._is_staged(committable):
            return Evidence.ABSENT
        # Where a file can leave its folder in one way only, a missing one was published, and then removed by a user.
        is_moved = self._files.proves_publication(self.stage.epoch(committable.attempt))
        return Evidence.PRESENT if is_moved else Evidence.UNKNOWN

    def _is_done(self, attempt: Attempt) -> bool:
        return self._files.keeps_staged and self.done.covers(attempt)

    def _is_staged(self, committable: Committable) -> bool:
        """True if at least one file of the attempt is still staged."""
        attempt = committable.attempt
        return any(self.stage.fit(attempt, part) is not Fit.ABSENT for part in parts_of(committable))

    def _is_visible(self, committable: Committable) -> bool:
        """True if every file of the attempt is published; durable then."""
        files, parts = self._files, parts_of(committable)
        fits = side_by_side(lambda part: files.fit(_final(committable, part), proof_of(part)), parts)
        if not all(fit is Fit.SAME for fit in fits):
            return False
        self._settle([committable])
        return True

    # --- publishing ----------------------------------------------------------------------------------------

    def _commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        # First look at the stage, then at the claim. This order reveals a commit and clean-up of another process in
        # between.
        misfits = list(side_by_side(self.stage.misfits, committables))
        standing = self.claims.standing(committables)
        if standing is Standing.OPEN and any(misfits):
            waiting = Answer(outcome=Outcome.RETRY, detail="not published: another file of this epoch is lost")
            looked_at = zip(committables, misfits, strict=True)
            return [self._lost(each, found) if found else waiting for each, found in looked_at]
        if standing is Standing.OPEN:
            standing = self.claims.claim(committables)
        if standing is not Standing.SAME:
            return self._refused(committables, standing)
        looked_at = list(zip(committables, misfits, strict=True))
        answers = list(side_by_side(lambda each: self._published(*each), looked_at))
        if any(answer.outcome is Outcome.ALREADY for answer in answers):
            self._settle(committables)
        return answers

    def _published(self, committable: Committable, misfits: Mapping[int, Fit]) -> Answer:
        """Publish all files of a claimed attempt, or none if a staged one was altered."""
        if Fit.OTHER in misfits.values():
            return self._lost(committable, misfits)
        outcomes = [self._publish(committable, part) for part in parts_of(committable)]
        if Outcome.UNKNOWN in outcomes:
            return _unknown("neither a staged file nor its published one exists, or another file has its name")
        return Answer(outcome=Outcome.COMMITTED) if Outcome.COMMITTED in outcomes else _ALREADY

    def _publish(self, committable: Committable, part: AttemptPart) -> Outcome:
        attempt, files = committable.attempt, self._files
        match files.publish(self.stage.name(attempt, part), _final(committable, part), proof_of(part)):
            case Published.VISIBLE:
                return Outcome.COMMITTED
            case Published.UNSTAGED if self._is_done(attempt) or files.proves_publication(self.stage.epoch(attempt)):
                return Outcome.ALREADY
            case Published.UNSTAGED | Published.TAKEN:
                return Outcome.UNKNOWN

    def _show(self, committable: Committable) -> Answer:
        """Publish without a claim. Only the published files themselves can prove that an earlier try has done it."""
        files, misfits = self._files, self.stage.misfits(committable)
        lost = {
            part.number: misfits[part.number]
            for part in parts_of(committable)
            if part.number in misfits and files.fit(_final(committable, part), proof_of(part)) is not Fit.SAME
        }
        if lost:
            return self._lost(committable, lost)
        staged = [part for part in parts_of(committable) if part.number not in misfits]
        outcomes = [self._publish(committable, part) for part in staged]
        if not staged:
            self._settle([committable])
            return _ALREADY
        if Outcome.UNKNOWN in outcomes:
            return _unknown("another file has its name")
        return Answer(outcome=Outcome.COMMITTED)

    def _refused(self, committables: Sequence[Committable], standing: Standing) -> list[Answer]:
        attempt = committables[0].attempt
        told = in_words(standing, attempt.sink, attempt.epoch, self.claims.position(attempt.sink))
        if standing is Standing.LATER and all(self._is_visible(committable) for committable in committables):
            return [_ALREADY for _ in committables]
        return [_unknown(f"{self._files.where()}: {told}") for _ in committables]

    def _lost(self, committable: Committable, misfits: Mapping[int, Fit]) -> Answer:
        return Answer(outcome=Outcome.LOST, detail=self.stage.in_words(committable, misfits))

    def _settle(self, committables: Sequence[Committable]) -> None:
        self._files.settle({part.folder for each in committables for part in parts_of(each)})

    @property
    def _files(self) -> TargetFiles:
        return self.stage.files


def _later(committables: Sequence[Committable], error: TidegateError) -> list[Answer]:
    """What the storage refuses can be repaired; any other error is raised."""
    if not is_of_storage(error):
        raise error
    return answer_all(committables, Outcome.RETRY, f"{error.where}: {error.found}")


def _final(committable: Committable, part: AttemptPart) -> str:
    # the suffix at staging time: the program may use another format now
    name = final_name(committable.attempt, committable.handle["suffix"], part.number)
    return f"{part.folder}/{name}" if part.folder else name


def _unknown(detail: str) -> Answer:
    return Answer(outcome=Outcome.UNKNOWN, detail=detail)
