"""The driver's side of the desk: takes requests of other processes, executes them, answers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.errors import TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.operate.beat import Incarnation, Wrong
from tidegate.operate.control import WITH_SAVEPOINT, Answer, Desk, Kind, Outcome, Request
from tidegate.operate.endings import EndMode
from tidegate.operate.job_end import ANSWER, Wish
from tidegate.operate.rhythm import rhythm_of
from tidegate.operate.supervisor_lock import supervisor_of
from tidegate.spark.savepoint_requests import (
    SavepointRequests,
    Word,
    how_it_ended,
    in_one_line,
    what_waits,
    word_of,
)
from tidegate.spark.ticking import Ticking
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob

_REACHED = "everything the job had read is done"

_ENDINGS: Mapping[Kind, EndMode] = {
    Kind.STOP: EndMode.STOP,
    Kind.STOP_WITH_SAVEPOINT: EndMode.STOP,
    Kind.DRAIN: EndMode.DRAIN,
    Kind.DRAIN_WITH_SAVEPOINT: EndMode.DRAIN,
    Kind.CANCEL: EndMode.CANCEL,
    Kind.CANCEL_WITH_SAVEPOINT: EndMode.CANCEL,
}
"""The kind of end for each request that ends a job."""


class Clerk(Ticking):
    """Answers the requests for this start of the job, and those for the supervisor that has started it: such a request
    came before this driver was at its desk. Requests for earlier starts came too late.

    `forgetful`: the sources that do not keep rows that a stopped job has not read. Such a job is canceled, not stopped.
    """

    def __init__(self, job_folder: Folder, mine: Incarnation, forgetful: Sequence[str]) -> None:
        super().__init__("desk", rhythm_of(job_folder).desk)
        self._desk = Desk(job_folder)
        self._folder = job_folder
        self._mine = {mine}
        self._forgetful = forgetful
        self._handle: LiveJob | None = None
        self._checkpoints: dict[str, Mapping[str, int]] = {}
        """The epochs that each awaited checkpoint must reach, by the request's id."""
        self._savepoints = SavepointRequests(job_folder)
        self._endings: set[str] = set()
        """The ids of running stops and cancels."""
        self._saving: set[str] = set()
        """The ids of those among them that end the job with a savepoint."""

    def begin(self, handle: LiveJob) -> None:
        self._handle = handle
        self._savepoints.begin()
        supervisor = supervisor_of(self._folder)
        if supervisor is not None:
            self._mine.add(supervisor.incarnation)
        for request in self._desk.open_requests(time.time()):
            if request.to not in self._mine:
                detail = f"it was meant for {request.to}, which has ended since"
                self._answer(request, Outcome.TOO_LATE, detail)

    def tick(self) -> None:
        if self._handle is None:
            return
        for request in self._desk.open_requests(time.time()):
            if request.to not in self._mine:
                self._answer(request, Outcome.TOO_LATE, f"it was meant for {request.to}")
            elif request.kind is Kind.CHECKPOINT:
                self._checkpoint(self._handle, request)
            elif request.kind is Kind.SAVEPOINT:
                self._savepoint(self._handle, request)
            elif request.id in self._endings:
                self._tell_how_far(self._handle, request)
            else:
                self._end(self._handle, request)

    def last(self, error: BaseException | None) -> None:
        if self._handle is None:
            return
        for request in self._desk.open_requests(time.time()):
            if request.to in self._mine:
                self._answer_at_the_end(self._handle, request, error)

    def _checkpoint(self, handle: LiveJob, request: Request) -> None:
        """A checkpoint is done when all epochs are done that were under way at its request."""
        targets = self._checkpoints.setdefault(request.id, handle.figures.under_way())
        if handle.figures.has_done(targets):
            del self._checkpoints[request.id]
            self._answer(request, Outcome.DONE, _REACHED, handle.figures.finished())

    def _savepoint(self, handle: LiveJob, request: Request) -> None:
        word = self._savepoints.look_after(handle, request)
        if word is not None:
            self._tell(request, word)

    def _end(self, handle: LiveJob, request: Request) -> None:
        if _ENDINGS[request.kind] is not EndMode.CANCEL and self._forgetful:
            again = f"cancel {handle.name}{' -s' if request.kind in WITH_SAVEPOINT else ''}"
            self._answer(
                request,
                Outcome.REFUSED,
                f"source {', '.join(self._forgetful)} keeps nothing for the next start, so a stop would lose what"
                f" arrives meanwhile: `tidegate {again}` ends the job all the same",
            )
        elif request.kind in WITH_SAVEPOINT or (request.kind is Kind.STOP and handle.a_stop_takes_a_savepoint):
            self._end_with_savepoint(handle, request)
        else:
            self._end_without(handle, request)

    def _end_with_savepoint(self, handle: LiveJob, request: Request) -> None:
        """Check the folder for the savepoint before the job is stopped."""
        try:
            if self._savepoints.may_go_there(handle, request):
                ending = _ENDINGS[request.kind]
                handle.ask_to_end_with_savepoint(ending, request.id, request.into, request.format)
                self._endings.add(request.id)
                self._saving.add(request.id)
        except Exception as error:  # noqa: BLE001 (answered)
            word = word_of(error)
            elsewhere = f"; `tidegate stop {handle.name} -p DIR` takes the savepoint elsewhere"
            self._tell(request, replace(word, detail=word.detail + elsewhere) if request.kind is Kind.STOP else word)

    def _tell_how_far(self, handle: LiveJob, request: Request) -> None:
        taking = handle.last_savepoint.taking
        if request.id in self._saving and taking is not None:
            self._savepoints.tell(request.id, taking.copying)

    def _end_without(self, handle: LiveJob, request: Request) -> None:
        self._endings.add(request.id)
        match _ENDINGS[request.kind]:
            case EndMode.STOP:
                handle.ask_to_stop()
            case EndMode.DRAIN:
                handle.ask_to_drain()
            case _:
                handle.ask_to_cancel()

    def _answer_at_the_end(self, handle: LiveJob, request: Request, error: BaseException | None) -> None:
        if request.kind in WITH_SAVEPOINT or request.id in self._saving:
            asked = request.id in self._endings
            self._tell(request, self._savepoints.of_the_end(handle, request, error, asked=asked))
            return
        wrong = handle.outcome.wrong(error)
        well = wrong in (Wrong.NOTHING, Wrong.SAVEPOINT)
        ended = "the job has ended before" if well else f"the job failed: {error}"
        if request.kind is Kind.SAVEPOINT:
            self._tell(request, self._savepoints.at_the_end(handle, request, ended))
            return
        wish = self._wish(handle, request)
        outcome = ANSWER.cell(wish, wrong)
        if wish is Wish.CHECKPOINT_REACHED:
            detail = _REACHED
        elif outcome is Outcome.DONE:
            detail = how_it_ended(handle)
        elif outcome is Outcome.PENDING and isinstance(error, TidegateError):
            detail = what_waits(error)
        else:
            detail = in_one_line(handle.outcome.not_drained()) if well and wish is Wish.NOT_DRAINED else ended
        self._answer(request, outcome, detail, handle.figures.finished())

    def _wish(self, handle: LiveJob, request: Request) -> Wish:
        match request.kind:
            case Kind.CHECKPOINT:
                reached = handle.figures.has_done(self._checkpoints.get(request.id, handle.figures.under_way()))
                return Wish.CHECKPOINT_REACHED if reached else Wish.CHECKPOINT
            case Kind.DRAIN:
                return Wish.DRAINED if handle.outcome.is_drained else Wish.NOT_DRAINED
            case Kind.CANCEL:
                return Wish.CANCEL
            case _:
                return Wish.STOP

    def _tell(self, request: Request, word: Word) -> None:
        self._answer(request, word.outcome, word.detail, word.epochs, word.savepoint)

    def _answer(
        self,
        request: Request,
        outcome: Outcome,
        detail: str,
        epochs: Mapping[str, int] | None = None,
        savepoint: str | None = None,
    ) -> None:
        self._desk.answer(
            Answer(
                id=request.id,
                kind=request.kind,
                outcome=outcome,
                detail=SECRETS.hide(detail),
                at=time.time(),
                epochs=dict(epochs or {}),
                savepoint=savepoint,
                into=request.into,
                format=request.format,
            )
        )
