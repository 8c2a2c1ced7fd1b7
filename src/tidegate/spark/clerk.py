"""The driver's side of the desk: takes what other processes ask of the job, has it done, answers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.checkpoints.savepoint_folder import Savepoint
from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.jobs.beat import Incarnation
from tidegate.jobs.control import Answer, Desk, Kind, Outcome, Request
from tidegate.jobs.supervisor_lock import supervisor_of
from tidegate.spark.ticking import Ticking

if TYPE_CHECKING:
    from tidegate.spark.handle import JobHandle

_LOOK_SECONDS = 0.2


class Clerk(Ticking):
    """Answers the requests that are meant for this incarnation of the job, or for the supervisor that has started it:
    somebody has asked before this one was at its desk. Older ones came too late.

    `forgetful` names the sources that keep no row a stopped job has not read: such a job is canceled, not stopped."""

    def __init__(self, job_folder: Path, mine: Incarnation, forgetful: Sequence[str]) -> None:
        super().__init__("desk", _LOOK_SECONDS)
        self._desk = Desk(job_folder)
        self._folder = job_folder
        self._mine = {mine}
        self._forgetful = forgetful
        self._handle: JobHandle | None = None
        self._checkpoints: dict[str, Mapping[str, int]] = {}
        """What each checkpoint that is waited for must reach, by the request's id."""
        self._endings: set[str] = set()
        """The ids of the stops and cancels that are under way."""

    def begin(self, handle: JobHandle) -> None:
        self._handle = handle
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
            elif request.id not in self._endings:
                self._end(self._handle, request)

    def last(self, error: BaseException | None) -> None:
        if self._handle is None:
            return
        for request in self._desk.open_requests(time.time()):
            if request.to in self._mine:
                self._answer_at_the_end(self._handle, request, error)

    def _checkpoint(self, handle: JobHandle, request: Request) -> None:
        """Done is a checkpoint when every epoch is that was under way when it was asked for."""
        targets = self._checkpoints.setdefault(request.id, handle.under_way())
        if handle.has_done(targets):
            del self._checkpoints[request.id]
            self._answer(request, Outcome.DONE, "everything the job had read is done", handle.finished())

    def _savepoint(self, handle: JobHandle, request: Request) -> None:
        """It is of what a checkpoint would be, and begun when that is done."""
        try:
            savepoints = handle.savepoints()
            begun = savepoints.begun(request.id)
            if begun is not None:
                if begun.done():
                    self._answer_savepoint(request, begun.result())
            elif handle.has_done(self._checkpoints.setdefault(request.id, handle.under_way())):
                del self._checkpoints[request.id]
                savepoints.begin(request.id, request.into)
        except TidegateError as error:
            self._answer(request, Outcome.REFUSED, _in_one_line(error))

    def _answer_savepoint(self, request: Request, savepoint: Savepoint) -> None:
        epochs = {query.done.query: query.done.epoch for query in savepoint.record.queries}
        self._answer(request, Outcome.DONE, "the savepoint is whole", epochs, str(savepoint.folder))

    def _answer_savepoint_at_the_end(self, handle: JobHandle, request: Request, ended: str) -> None:
        """One that is being copied is waited for: all it needs is held."""
        try:
            begun = handle.savepoints().begun(request.id)
            if begun is None:
                self._answer(request, Outcome.FAILED, f"no savepoint was begun: {ended}", handle.finished())
            else:
                self._answer_savepoint(request, begun.result())
        except TidegateError as error:
            self._answer(request, Outcome.REFUSED, _in_one_line(error))

    def _end(self, handle: JobHandle, request: Request) -> None:
        if request.kind is not Kind.CANCEL and self._forgetful:
            self._answer(
                request,
                Outcome.REFUSED,
                f"source {', '.join(self._forgetful)} keeps nothing for the next start, so a stop would lose what"
                f" arrives meanwhile: `tidegate cancel {handle.name}` ends the job all the same",
            )
            return
        self._endings.add(request.id)
        match request.kind:
            case Kind.STOP:
                handle.ask_to_stop()
            case Kind.DRAIN:
                handle.ask_to_drain()
            case _:
                handle.ask_to_cancel()

    def _answer_at_the_end(self, handle: JobHandle, request: Request, error: BaseException | None) -> None:
        finished = handle.finished()
        ended = "the job has ended before" if error is None else f"the job failed: {error}"
        if request.kind is Kind.SAVEPOINT:
            self._answer_savepoint_at_the_end(handle, request, ended)
        elif request.kind is Kind.CHECKPOINT and handle.has_done(self._checkpoints.get(request.id, handle.under_way())):
            self._answer(request, Outcome.DONE, "everything the job had read is done", finished)
        elif error is None and request.kind is Kind.DRAIN and not handle.is_drained:
            detail = f"{_how_it_ended(handle)}, and was not drained to its end"
            self._answer(request, Outcome.FAILED, detail, finished)
        elif error is None and request.kind is not Kind.CHECKPOINT:
            self._answer(request, Outcome.DONE, _how_it_ended(handle), finished)
        elif isinstance(error, TidegateError) and error.catalogue_entry is Code.SINK_UNAVAILABLE:
            self._answer(request, Outcome.PENDING, _what_waits(error), finished)
        else:
            self._answer(request, Outcome.FAILED, ended, finished)

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
            )
        )


def _how_it_ended(handle: JobHandle) -> str:
    drained = ", and drained: nothing goes on from its checkpoint" if handle.is_drained else ""
    ended = f"the job is {handle.end_state(None).value}{drained}"
    return ended if handle.left_behind is None else f"{ended}; {_what_waits(handle.left_behind)}"


def _in_one_line(error: TidegateError) -> str:
    return f"{error.code}: {_what_waits(error)}"


def _what_waits(error: TidegateError) -> str:
    return f"{error.where}: expected {error.expected}, found {error.found}; {error.next_step}"
