"""Sends a request to a job, which may run in another process, and follows the request until it is answered.

A request passes through stages. This module never sleeps: each step reads the job's files and locks, and returns the
event that it waits for. The caller can wait in a loop (`tickets`) or look again at any time.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from tidegate.checkpoints.drained import drained_at
from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.beat import Beat, Incarnation, JobState, Post, is_of_holder, read_beat
from tidegate.operate.control import ENDS_A_JOB, WITH_SAVEPOINT, Answer, Desk, Kind, Outcome, Request, must_stand_for
from tidegate.operate.copy_progress import read_progress
from tidegate.operate.failures import restart_follows
from tidegate.operate.settling import settle
from tidegate.operate.supervisor_lock import Supervising, supervisor_lives, supervisor_of
from tidegate.storages.leases import driver_lives, open_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.savepoints.folder import Savepoint

_UNTIL_THE_LOCK_IS_FREE_SECONDS = 20.0
_UNTIL_A_SUPERVISOR_HAS_ENDED_SECONDS = 10.0
"""Limit for the supervisor's end, in seconds. It waits a few seconds for a JVM, but its program may run for any time
after the job."""


def new_id() -> str:
    """A new id for a request without an id of the caller."""
    return secrets.token_hex(8)


class Stage(Enum):
    """The stage of a request."""

    UNASKED = "no process of the job can receive the request yet: it is not sent"
    ASKED = "the request is sent, and the job may execute it at any time"
    SAVING = "the job has ended, and this process copies its savepoint"
    ENDING = "the answer is available, and the job's processes are ending"


@dataclass(frozen=True, slots=True)
class RequestStep:
    """One look at an open request: its stage, and a description of the event that it waits for."""

    stage: Stage
    waits_for: str


RequestSteps: TypeAlias = Generator[RequestStep, None, Answer]
_LivingSteps: TypeAlias = Generator[RequestStep, None, Incarnation | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOrder:
    """A request as the caller gives it. `into`: the folder for a savepoint; None: the job's own setting. `format`: the
    format of the state in the savepoint."""

    kind: Kind
    id: str
    into: str | None = None
    format: SavepointFormat = SavepointFormat.NATIVE


class Asking:
    """One request to the job in a folder.

    The request goes to the job's driver. If no driver runs yet, the supervisor receives the request to end the job.
    After a stop, a drain or a cancel, the locks of driver and supervisor are free too, so that a new start is possible.
    """

    def __init__(self, job_folder: Folder, asked: RequestOrder) -> None:
        self._folder = job_folder
        self._asked = asked
        self.patient_until = 0.0
        """End of the caller's patience, on the monotonic clock. The job's processes get the same time to end."""
        self._desk = Desk(job_folder)
        self._supervisor: Supervising | None = None
        self._has_begun = self._has_record()

    def steps(self) -> RequestSteps:
        """Send the request, unless this id was sent before. Yield one step for each look; return the answer."""
        kind = self._asked.kind
        answer = yield from self._answered()
        if kind in WITH_SAVEPOINT and answer.outcome is Outcome.NOT_RUNNING:
            return (yield from self._save_ended())
        ends = (Kind.STOP, Kind.DRAIN, Kind.CANCEL, *WITH_SAVEPOINT)
        if kind in ends and answer.outcome in (Outcome.DONE, Outcome.PENDING):
            yield from self._until_the_locks_are_free()
        return answer

    def _answered(self) -> RequestSteps:
        asked = self._asked
        asked_before = self._desk.standing(asked.id)
        known = self._desk.answer_to(asked.id)
        if known is not None and _has_lost_its_savepoint(known):
            must_stand_for(asked.kind, asked.into, asked.format, known)
            self._desk.forget(known)
            known = None
        if asked_before is not None:
            to = asked_before.to
        elif known is not None and known.counts_for_good:
            to = _NOBODY
        else:
            to = yield from self._living()
        if to is None:
            return self._without_a_process(known)
        by = f"process {os.getpid()} on {socket.gethostname()}"
        self._supervisor = supervisor_of(self._folder)
        request = Request(
            id=asked.id,
            kind=asked.kind,
            to=to,
            asked_at=time.time(),
            asked_by=by,
            into=asked.into,
            format=asked.format,
        )
        return (yield from self._awaited(self._desk.ask(request)))

    def _without_a_process(self, known: Answer | None) -> Answer:
        asked = self._asked
        if known is not None:
            must_stand_for(asked.kind, asked.into, asked.format, known)
            if asked.kind is Kind.SAVEPOINT:
                return known
        return Answer(
            id=asked.id, kind=asked.kind, outcome=Outcome.NOT_RUNNING, detail="the job does not run", at=time.time()
        )

    def _living(self) -> _LivingSteps:
        """Return the running incarnation, or the supervisor if it can serve the request; None if there is neither.
        Waits while a driver is being started."""
        while True:
            lives, supervised = driver_lives(self._folder), supervisor_lives(self._folder)
            beat = self._beat()
            if lives and beat is not None and beat.state is JobState.RUNNING and self._is_of_holder(beat):
                return beat.incarnation
            if not lives and not supervised and not restart_follows(self._folder, beat, time.time()):
                return None
            supervisor = supervisor_of(self._folder)
            if supervisor is not None and self._asked.kind in ENDS_A_JOB:
                return supervisor.incarnation
            what = "the job, which is starting or ending" if lives else "the job's next start"
            whose = "" if supervisor is None else f" (its supervisor is {supervisor})"
            yield RequestStep(Stage.UNASKED, f"{what}{whose}")

    def _awaited(self, request: Request) -> RequestSteps:
        while (answer := self._desk.answer_to(request.id)) is None:
            if self._has_ended(request.to):
                return self._without_driver(request)
            yield RequestStep(Stage.ASKED, self._awaiting(request))
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
            return not driver_lives(self._folder)  # a driver that outlives its supervisor answers when it ends
        if not driver_lives(self._folder):
            return True
        beat = self._beat()
        return beat is not None and beat.incarnation != incarnation and self._is_of_holder(beat)

    def _without_driver(self, request: Request) -> Answer:
        """The process that received the request has ended. Its own answer counts if there is one; otherwise the end of
        the job gives the answer."""
        gone = self._has_begun and not self._has_record()
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
        return settle(request, self._beat(), time.time(), drained_at=drained_at(self._folder))

    def _save_ended(self) -> RequestSteps:
        """The job has ended, perhaps by an earlier try of this request: take the missing savepoint."""
        from tidegate.operate.ended_savepoint import saving_ended  # not needed for other requests: loaded here

        asked = self._asked
        known = self._desk.answer_to(asked.id)
        copying = saving_ended(self._folder, asked.id, asked.into, asked.format, ended_by=asked.kind)
        try:
            while True:
                yield RequestStep(Stage.SAVING, f"the savepoint: {next(copying)} copied")
        except StopIteration as stop:
            savepoint: Savepoint = stop.value
        finally:
            copying.close()
        if known is not None:
            self._desk.withdraw(known)
        return self._desk.answer(
            Answer(
                id=asked.id,
                kind=asked.kind,
                outcome=Outcome.DONE,
                detail="the job had ended before; the savepoint is of its end",
                at=time.time(),
                epochs={query.done.query: query.done.epoch for query in savepoint.record.queries},
                savepoint=str(savepoint.found_at),
                into=asked.into,
                format=asked.format,
            )
        )

    def _until_the_locks_are_free(self) -> Generator[RequestStep, None, None]:
        """Wait until the locks are free. A driver or supervisor answers before it releases its locks. A driver also
        answers before its supervisor ends, and a living supervisor prevents a new `tidegate run`."""
        answered_at = time.monotonic()
        supervised_until = answered_at + _UNTIL_A_SUPERVISOR_HAS_ENDED_SECONDS
        while driver_lives(self._folder) or (time.monotonic() < supervised_until and self._is_supervised()):
            if time.monotonic() >= max(self.patient_until, answered_at + _UNTIL_THE_LOCK_IS_FREE_SECONDS):
                return  # the answer is valid even so: the program may still run after its job
            yield RequestStep(Stage.ENDING, "the driver to end")

    def _is_supervised(self) -> bool:
        """True if the supervisor that ran when the request was sent still runs."""
        return self._supervisor is not None and supervisor_of(self._folder) == self._supervisor

    def _has_record(self) -> bool:
        return open_storage(self._folder).look(JOB_RECORD) is not None

    def _beat(self) -> Beat | None:
        return read_beat(self._folder)

    def _is_of_holder(self, beat: Beat) -> bool:
        return is_of_holder(beat, open_lease(self._folder).holder())


def _has_lost_its_savepoint(known: Answer) -> bool:
    """True if the savepoint of an answer is missing or incomplete now. It is then requested again."""
    if known.kind is not Kind.SAVEPOINT or known.savepoint is None:
        return False
    from tidegate.savepoints.folder import MANIFEST, lacks, open_savepoint  # not needed for other requests: loaded here

    try:
        place = Folder.of(known.savepoint)
        if not place.is_local:
            return open_storage(place).look(MANIFEST) is None
        return any(lacks(open_savepoint(place.local())))
    except TidegateError:
        return True


_NOBODY = Incarnation(host="", process=0, started_at=0.0)
"""For a request that has its answer already: it is compared, and not sent."""
