"""Asks something of a job that may be running in another process, and waits for what becomes of it."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tidegate.checkpoints.drained import is_drained
from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.disk.durable import Trust
from tidegate.operate.beat import BEAT, Beat, Incarnation, JobState, Post, is_of_holder, read_beat
from tidegate.operate.control import ENDS_A_JOB, WITH_SAVEPOINT, Answer, Desk, Kind, Outcome, Request, must_stand_for
from tidegate.operate.copy_progress import read_progress
from tidegate.operate.settling import settle
from tidegate.operate.supervisor_lock import Supervising, supervisor_of
from tidegate.storages.local.locks import read_holder
from tidegate.storages.local.probe import driver_lives, supervisor_lives

_LOOK_SECONDS = 0.05
_UNTIL_THE_LOCK_IS_FREE_SECONDS = 20.0
_UNTIL_A_SUPERVISOR_HAS_ENDED_SECONDS = 10.0
"""It waits some seconds for a JVM to end; and for its program, which may run after its job for any time."""


def new_id() -> str:
    """An id for a request whose caller has chosen none."""
    return secrets.token_hex(8)


def ask(
    job_folder: Path,
    kind: Kind,
    request_id: str,
    timeout_seconds: float,
    tell: Callable[[str], None],
    into: str | None = None,
    form: SavepointFormat = SavepointFormat.NATIVE,
) -> Answer:
    """Ask, and wait for the answer; what was asked under this id before is not asked again.

    The job's driver is asked; for the end of a job whose driver has not got so far, its supervisor is. `tell` hears
    what is waited for, again and again. After a stop, a drain or a cancel the locks of the job's driver and supervisor
    are free, too: they are not what stands against a new start. Raises NoAnswer at the timeout.
    """
    asking = _Asking(job_folder, time.monotonic() + timeout_seconds, tell)
    answer = asking.answer_of(kind, request_id, into, form)
    if kind in WITH_SAVEPOINT and answer.outcome is Outcome.NOT_RUNNING:
        return asking.save_ended(kind, request_id, into, form)
    ends = (Kind.STOP, Kind.DRAIN, Kind.CANCEL, *WITH_SAVEPOINT)
    if kind in ends and answer.outcome in (Outcome.DONE, Outcome.PENDING):
        asking.wait_for_the_lock()
    return answer


class NoAnswer(Exception):
    """The job did not answer in time. `stands` tells whether the request stands, and may still be done."""

    def __init__(self, waited_for: str, stands: bool) -> None:
        super().__init__(waited_for)
        self.waited_for = waited_for
        self.stands = stands


class _Asking:
    def __init__(self, folder: Path, end: float, tell: Callable[[str], None]) -> None:
        self._folder = folder
        self._end = end
        self._tell = tell
        self._desk = Desk(folder)
        self._supervisor: Supervising | None = None
        self._has_begun = (folder / JOB_RECORD).exists()

    def answer_of(self, kind: Kind, request_id: str, into: str | None, form: SavepointFormat) -> Answer:
        asked_before = self._desk.standing(request_id)
        known = self._desk.answer_to(request_id)
        if known is not None and _has_lost_its_savepoint(known):
            must_stand_for(kind, into, form, known)
            self._desk.forget(known)
            known = None
        answered = known is not None and known.counts_for_good
        to = asked_before.to if asked_before is not None else _NOBODY if answered else self._living(kind)
        if to is None:
            if known is not None:
                must_stand_for(kind, into, form, known)
                if kind is Kind.SAVEPOINT:
                    return known
            return Answer(
                id=request_id, kind=kind, outcome=Outcome.NOT_RUNNING, detail="the job does not run", at=time.time()
            )
        by = f"process {os.getpid()} on {socket.gethostname()}"
        self._supervisor = supervisor_of(self._folder)
        request = Request(id=request_id, kind=kind, to=to, asked_at=time.time(), asked_by=by, into=into, format=form)
        return self._awaited(self._desk.ask(request))

    def _living(self, kind: Kind) -> Incarnation | None:
        """The incarnation that runs, or, if it can serve the request, the supervisor. Waits while a driver is being
        started. None if there is neither."""
        while True:
            lives, supervised = driver_lives(self._folder), supervisor_lives(self._folder)
            beat = self._beat()
            if lives and beat is not None and beat.state is JobState.RUNNING and self._is_of_holder(beat):
                return beat.incarnation
            if not lives and not supervised:
                return None
            supervisor = supervisor_of(self._folder)
            if supervisor is not None and kind in ENDS_A_JOB:
                return supervisor.incarnation
            self._pause(_waited_for(lives, supervisor), stands=False)

    def _awaited(self, request: Request) -> Answer:
        while (answer := self._desk.answer_to(request.id)) is None:
            if self._has_ended(request.to):
                return self._without_driver(request)
            self._pause(self._awaiting(request), stands=True)
        return answer

    def _awaiting(self, request: Request) -> str:
        progress = read_progress(self._folder, request.id)
        if progress is None:
            return f"the job to answer `{request.kind.value}`"
        return f"the savepoint: {progress} copied"

    def _has_ended(self, incarnation: Incarnation) -> bool:
        if incarnation.post is Post.SUPERVISOR:
            supervisor = supervisor_of(self._folder)
            if supervisor is not None:
                return supervisor.incarnation != incarnation
            return not driver_lives(self._folder)  # a driver that outlives it answers for it, when it ends
        if not driver_lives(self._folder):
            return True
        beat = self._beat()
        return beat is not None and beat.incarnation != incarnation and self._is_of_holder(beat)

    def _without_driver(self, request: Request) -> Answer:
        """The process that was asked has ended. It may have answered before; otherwise the end of the job gives the
        answer."""
        gone = self._has_begun and not (self._folder / JOB_RECORD).exists()
        if gone and request.kind not in WITH_SAVEPOINT:
            done = request.kind is Kind.CANCEL
            return Answer(
                id=request.id,
                kind=request.kind,
                outcome=Outcome.DONE if done else Outcome.NOT_RUNNING,
                detail="the job is canceled, and its checkpoints are deleted",
                at=time.time(),
            )
        answer = self._desk.answer_to(request.id)
        return answer or self._desk.answer(self._settled(request))

    def _settled(self, request: Request) -> Answer:
        return settle(request, self._beat(), time.time(), is_drained=is_drained(self._folder))

    def save_ended(self, kind: Kind, request_id: str, into: str | None, form: SavepointFormat) -> Answer:
        """The job has ended, maybe by an earlier try of the same request: what is missing is its savepoint."""
        from tidegate.operate.ended_savepoint import save_ended  # loads what no other request needs

        known = self._desk.answer_to(request_id)
        savepoint = save_ended(
            self._folder, request_id, into, self._tell, form, drained=kind is Kind.DRAIN_WITH_SAVEPOINT
        )
        if known is not None:
            self._desk.withdraw(known)
        return self._desk.answer(
            Answer(
                id=request_id,
                kind=kind,
                outcome=Outcome.DONE,
                detail="the job had ended before; the savepoint is of its end",
                at=time.time(),
                epochs={query.done.query: query.done.epoch for query in savepoint.record.queries},
                savepoint=str(savepoint.folder),
                into=into,
                format=form,
            )
        )

    def wait_for_the_lock(self) -> None:
        """A driver, or a supervisor, answers before it has let go of its locks; and a driver before its supervisor has
        ended, which would stand against a new `tidegate run`."""
        answered_at = time.monotonic()
        self._end = max(self._end, answered_at + _UNTIL_THE_LOCK_IS_FREE_SECONDS)
        supervised_until = answered_at + _UNTIL_A_SUPERVISOR_HAS_ENDED_SECONDS
        while driver_lives(self._folder) or (time.monotonic() < supervised_until and self._is_supervised()):
            if time.monotonic() >= self._end:
                return  # the answer is true all the same: the program runs after its job
            self._pause("the driver to end", stands=False)

    def _is_supervised(self) -> bool:
        """Whether the supervisor is still there that was when this was asked."""
        return self._supervisor is not None and supervisor_of(self._folder) == self._supervisor

    def _beat(self) -> Beat | None:
        with Trust().over(self._folder / BEAT, "read how the job is"):
            return read_beat(self._folder)

    def _is_of_holder(self, beat: Beat) -> bool:
        return is_of_holder(beat, read_holder(self._folder))

    def _pause(self, waiting_for: str, *, stands: bool) -> None:
        if time.monotonic() >= self._end:
            raise NoAnswer(waiting_for, stands)
        self._tell(waiting_for)
        time.sleep(_LOOK_SECONDS)


def _has_lost_its_savepoint(known: Answer) -> bool:
    """Whether the savepoint of an answer is not there, or not whole, any more: then it is asked for once more."""
    if known.kind is not Kind.SAVEPOINT or known.savepoint is None:
        return False
    from tidegate.savepoints.folder import lacks, open_savepoint  # loads what no other request needs

    try:
        return any(lacks(open_savepoint(Path(known.savepoint))))
    except TidegateError:
        return True


def _waited_for(lives: bool, supervisor: Supervising | None) -> str:
    """In whose hands it is, so that the reader can look there."""
    whose = "" if supervisor is None else f" (its supervisor is {supervisor})"
    return f"the job, which is starting or ending{whose}" if lives else f"the job's next start{whose}"


_NOBODY = Incarnation(host="", process=0, started_at=0.0)
"""For a request that is answered already: it is compared and not put."""
