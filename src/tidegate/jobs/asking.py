"""Asks something of a job that may be running in another process, and waits for what becomes of it."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tidegate.checkpoints.drained import is_drained
from tidegate.checkpoints.locks import read_holder
from tidegate.checkpoints.probe import driver_lives, supervisor_lives
from tidegate.jobs.beat import Beat, Incarnation, JobState, is_of_holder, read_beat
from tidegate.jobs.control import WITH_SAVEPOINT, Answer, Desk, Kind, Outcome, Request, must_stand_for
from tidegate.jobs.copy_progress import read_progress
from tidegate.jobs.settling import settle

_LOOK_SECONDS = 0.05
_UNTIL_THE_LOCK_IS_FREE_SECONDS = 20.0


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
) -> Answer:
    """Ask, and wait for the answer; what was asked under this id before is not asked again.

    `tell` hears what is waited for, again and again. After a stop, a drain or a cancel the job's lock is free, too: it
    is not what stands against a new start. Raises NoAnswer at the timeout.
    """
    asking = _Asking(job_folder, time.monotonic() + timeout_seconds, tell)
    answer = asking.answer_of(kind, request_id, into)
    if kind in WITH_SAVEPOINT and answer.outcome is Outcome.NOT_RUNNING:
        return asking.save_ended(kind, request_id, into)
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

    def answer_of(self, kind: Kind, request_id: str, into: str | None) -> Answer:
        asked_before = self._desk.standing(request_id)
        known = self._desk.answer_to(request_id)
        answered = known is not None and known.counts_for_good
        to = asked_before.to if asked_before is not None else _NOBODY if answered else self._living()
        if to is None:
            if known is not None:
                must_stand_for(kind, into, known)
                if kind is Kind.SAVEPOINT:
                    return known
            return Answer(
                id=request_id, kind=kind, outcome=Outcome.NOT_RUNNING, detail="the job does not run", at=time.time()
            )
        by = f"process {os.getpid()} on {socket.gethostname()}"
        request = Request(id=request_id, kind=kind, to=to, asked_at=time.time(), asked_by=by, into=into)
        return self._awaited(self._desk.ask(request))

    def _living(self) -> Incarnation | None:
        """The incarnation that runs, waited for while one is being started; None when there is nobody to wait for."""
        while True:
            lives, supervised = driver_lives(self._folder), supervisor_lives(self._folder)
            beat = read_beat(self._folder)
            if lives and beat is not None and beat.state is JobState.RUNNING and self._is_of_holder(beat):
                return beat.incarnation
            if not lives and not supervised:
                return None
            self._pause("the job's next start" if not lives else "the job, which is starting or ending", stands=False)

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
        if not driver_lives(self._folder):
            return True
        beat = read_beat(self._folder)
        return beat is not None and beat.incarnation != incarnation and self._is_of_holder(beat)

    def _without_driver(self, request: Request) -> Answer:
        """The driver has ended: it may have answered before, else the end of the job tells."""
        if not (self._folder / "job.json").exists() and request.kind not in WITH_SAVEPOINT:
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
        return settle(request, read_beat(self._folder), time.time(), is_drained=is_drained(self._folder))

    def save_ended(self, kind: Kind, request_id: str, into: str | None) -> Answer:
        """The job has ended, maybe by an earlier try of the same request: what is missing is its savepoint."""
        from tidegate.jobs.ended_savepoint import save_ended  # loads what no other request needs

        known = self._desk.answer_to(request_id)
        savepoint = save_ended(self._folder, request_id, into, self._tell)
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
            )
        )

    def wait_for_the_lock(self) -> None:
        """A driver answers before it has let go of its locks."""
        self._end = max(self._end, time.monotonic() + _UNTIL_THE_LOCK_IS_FREE_SECONDS)
        while driver_lives(self._folder):
            if time.monotonic() >= self._end:
                return  # the answer is true all the same: the program goes on after its job
            self._pause("the driver to end", stands=False)

    def _is_of_holder(self, beat: Beat) -> bool:
        return is_of_holder(beat, read_holder(self._folder))

    def _pause(self, waiting_for: str, *, stands: bool) -> None:
        if time.monotonic() >= self._end:
            raise NoAnswer(waiting_for, stands)
        self._tell(waiting_for)
        time.sleep(_LOOK_SECONDS)


_NOBODY = Incarnation(host="", process=0, started_at=0.0)
"""For a request that is answered already: it is compared and not put."""
