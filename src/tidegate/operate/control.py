"""The desk of a job: other processes put requests there, its driver answers them.

A request is a file `control/requests/<id>.json`, its answer `control/answers/<id>.json`, so both work wherever the
job's folder is reachable. The caller may choose the id: the same request asked again under its id is one request, and
has one answer. A request names the incarnation of the job it is meant for, so that none strikes a later one.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.names import NAME_RULE, is_name, shown
from tidegate.core.records import SavepointFormat
from tidegate.core.spoilt import SPOILT
from tidegate.operate.beat import Incarnation
from tidegate.storages.opening import open_storage

VERSION = 1
"""The version of requests and answers that this release writes. A newer request is refused, never guessed."""

ANSWERS_KEPT = 100

REQUEST_BYTES_AT_MOST = 64 * 1024
"""A request has some hundred bytes. A larger file is not a request, and is not read."""

REQUESTS = "control/requests"
ANSWERS = "control/answers"


class Kind(Enum):
    """What can be asked of a job."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    STOP = "stop"
    DRAIN = "drain"
    CANCEL = "cancel"
    STOP_WITH_SAVEPOINT = "stop-with-savepoint"
    DRAIN_WITH_SAVEPOINT = "drain-with-savepoint"
    CANCEL_WITH_SAVEPOINT = "cancel-with-savepoint"


ENDS_A_JOB = frozenset({Kind.STOP, Kind.CANCEL})
"""What can be asked of a supervisor: the rest needs a driver."""


WITH_SAVEPOINT = frozenset({Kind.STOP_WITH_SAVEPOINT, Kind.DRAIN_WITH_SAVEPOINT, Kind.CANCEL_WITH_SAVEPOINT})
"""What ends a job with a savepoint of its end."""


class Outcome(Enum):
    """The closed set of what becomes of a request."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was done: the answer says why."""
    PENDING = "pending"
    """The job has ended, and a decided epoch waits for a sink: the next start commits it."""
    FAILED = "failed"
    """The job failed before it was done."""
    TOO_LATE = "too late"
    """It was meant for an incarnation of the job that has ended."""
    NOT_RUNNING = "not running"
    """There was no job any more to do it."""
    UNKNOWN = "unknown"
    """The job's driver died, and it is unknown whether it was done."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to one incarnation of a job. `into` is the folder for a savepoint; None: the job's own.
    `format` is how that one keeps state."""

    id: str
    kind: Kind
    to: Incarnation
    asked_at: float
    asked_by: str
    into: str | None = None
    format: SavepointFormat = SavepointFormat.NATIVE
    version: int = VERSION


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request. `kind` is None where the request could not be read.

    `epochs` are, by query, the newest done epochs that the answer is about; `savepoint` is where one was taken.
    """

    id: str
    kind: Kind | None
    outcome: Outcome
    detail: str
    at: float
    epochs: dict[str, int] = {}
    savepoint: str | None = None
    into: str | None = None
    format: SavepointFormat = SavepointFormat.NATIVE
    """What the request said, as `into`."""
    version: int = VERSION

    @property
    def counts_for_good(self) -> bool:
        """True if a repeated request with this id gets the same answer. A savepoint that is not there is tried again:
        its folder is named by the id, so there is never a second one of the same epochs."""
        return self.outcome is Outcome.DONE or self.kind not in {Kind.SAVEPOINT, *WITH_SAVEPOINT}


class Desk:
    """The requests and answers of the job in one folder. Any number of processes may use it at once."""

    def __init__(self, job_folder: str | Path) -> None:
        self._storage = open_storage(job_folder)
        self._passed_over: set[str] = set()
        """The names of files that were complained of."""

    # --- asking --------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Request:
        """Put a request there, unless its id is taken; the request that stands under the id, answered or not.

        Raises REQUEST_REFUSED when the id is no name, or stands for something else.
        """
        answered = self.answer_to(request.id)
        if answered is not None:
            must_stand_for(request.kind, request.into, request.format, answered)
            if answered.counts_for_good:
                return request
            self.withdraw(answered)
        if self._storage.put_if_absent(_request(request.id), msgspec.json.encode(request)):
            return request
        standing = self.standing(request.id)
        if standing is not None:
            must_stand_for(request.kind, request.into, request.format, standing)
        return standing or request

    def answer_to(self, request_id: str) -> Answer | None:
        """The answer to a request, None while there is none."""
        _must_be_an_id(request_id)
        data = self._storage.read(_answer(request_id))
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=Answer)
        except SPOILT as error:
            raise TidegateError(
                Code.RECORD_CORRUPT,
                expected="an answer of a job",
                found=str(error),
                where=self._storage.where(_answer(request_id)),
                next_step="look at the job (`tidegate info`), then ask again under another id",
            ) from None

    def standing(self, request_id: str) -> Request | None:
        """The request that stands unanswered under an id; None also where it cannot be read."""
        _must_be_an_id(request_id)
        try:
            return self._request_in(_request(request_id), request_id)
        except _NoRequest:
            return None

    def withdraw(self, answer: Answer) -> None:
        """Make room for another answer under the id, where this one does not count for good."""
        if not answer.counts_for_good:
            self._storage.delete(_answer(answer.id))

    def forget(self, answer: Answer) -> None:
        """Make room for another answer under the id: what this one tells of is not there any more."""
        self._storage.delete(_answer(answer.id))

    # --- answering -----------------------------------------------------------------------------------------

    def open_requests(self, now: float) -> list[Request]:
        """The requests without an answer, the oldest first. What cannot be read, or is newer, is answered here."""
        found = [self._read(name, now) for name in self._storage.list(REQUESTS) if name.endswith(_SUFFIX)]
        return sorted((request for request in found if request is not None), key=lambda each: (each.asked_at, each.id))

    def answer(self, answer: Answer) -> Answer:
        """Answer a request; of two answers at once the first counts, and is given back. The oldest ones go."""
        created = self._storage.put_if_absent(_answer(answer.id), msgspec.json.encode(answer))
        counts = answer if created else self.answer_to(answer.id) or answer
        self._storage.delete(_request(answer.id))
        self._drop_old_answers()
        return counts

    def _read(self, name: str, now: float) -> Request | None:
        """One request; None when it is gone, was answered, or is answered here. What cannot even be put aside is passed
        over: nothing that lies there keeps the others from being served."""
        try:
            return self._read_one(name, now)
        except TidegateError as error:
            if name not in self._passed_over:
                self._passed_over.add(name)
                _warn("the request %s is passed over: %s", shown(name), error)
            return None

    def _read_one(self, name: str, now: float) -> Request | None:
        path, request_id = f"{REQUESTS}/{name}", name.removesuffix(_SUFFIX)
        if not is_name(request_id):
            self._set_aside(path, f"its name is no id: {NAME_RULE}")
            return None
        if self._storage.read(_answer(request_id)) is not None:  # the process that answered died before removing it
            self._storage.delete(path)
            return None
        try:
            return self._request_in(path, request_id)
        except _NewerRequest as newer:
            self.answer(_refusal(request_id, f"{newer}: ask with the release that runs the job", now))
        except _NoRequest as flaw:
            self._set_aside(path, str(flaw))
            self.answer(_refusal(request_id, f"the request cannot be read ({flaw}): ask again under another id", now))
        return None

    def _request_in(self, path: str, request_id: str) -> Request | None:
        """The request that stands in a file; None when the file is gone. Raises _NoRequest for anything else."""
        size = self._size(path)
        if size > REQUEST_BYTES_AT_MOST:
            raise _NoRequest(f"it has {size} bytes, and none has more than {REQUEST_BYTES_AT_MOST}")
        data = self._storage.read(path)
        if data is None:
            return None
        try:
            version = msgspec.json.decode(data, type=_Versioned).version
            if version > VERSION:
                raise _NewerRequest(f"the request has version {version}, and this job's release knows up to {VERSION}")
            request = msgspec.json.decode(data, type=Request)
        except SPOILT as error:
            raise _NoRequest(str(error)) from None
        if request.id != request_id:
            raise _NoRequest(f"its id is {shown(request.id)}")
        if "\0" in (request.into or ""):
            raise _NoRequest(f"no folder has the name {shown(request.into or '')}")
        return request

    def _size(self, path: str) -> int:
        seen = self._storage.look(path)
        return 0 if seen is None else seen.size_bytes

    def _set_aside(self, path: str, why: str) -> None:
        kept_as = self._storage.set_aside(path)
        if kept_as is None:  # gone meanwhile
            return
        _warn("a request was set aside as %s: %s", kept_as, why)

    def _drop_old_answers(self) -> None:
        names = self._storage.list(ANSWERS)
        if len(names) > ANSWERS_KEPT:
            by_age = sorted((f"{ANSWERS}/{name}" for name in names), key=self._written_at)
            for path in by_age[:-ANSWERS_KEPT]:
                self._storage.delete(path)

    def _written_at(self, path: str) -> float:
        seen = self._storage.look(path)
        return 0.0 if seen is None else seen.written_at  # another one dropped it


def must_stand_for(kind: Kind, into: str | None, form: SavepointFormat, known: Request | Answer) -> None:
    """Raises REQUEST_REFUSED where an id stands for something else than what is asked under it."""
    if (known.kind, known.into, known.format) != (kind, into, form):
        raise _refused(
            f"an id that was not used, or stands for {_meant(kind, into, form)}",
            f"{known.id}, which stands for {_meant(known.kind, known.into, known.format)}",
            "the request's id",
            "choose another id",
        )


def _meant(kind: Kind | None, into: str | None, form: SavepointFormat) -> str:
    named = "what could not be read" if kind is None else f"`{kind.value}`"
    kept = "" if form is SavepointFormat.NATIVE else f" ({form.value})"
    return f"{named}{kept}" if into is None else f"{named}{kept} in {into}"


class _Versioned(msgspec.Struct, frozen=True):
    version: int


class _NoRequest(Exception):
    """What stands in the place of a request is none, and why."""


class _NewerRequest(_NoRequest):
    """It may well be one, for a newer release."""


_SUFFIX = ".json"


def _warn(text: str, *values: object) -> None:
    from logging import getLogger  # loads what a look at jobs does not need

    getLogger("tidegate").warning(text, *values)


def _request(request_id: str) -> str:
    return f"{REQUESTS}/{request_id}{_SUFFIX}"


def _answer(request_id: str) -> str:
    return f"{ANSWERS}/{request_id}{_SUFFIX}"


def _must_be_an_id(request_id: str) -> None:
    if not is_name(request_id):
        raise _refused(f"an id of {NAME_RULE}", shown(request_id), "the request's id", "choose another id")


def _refusal(request_id: str, detail: str, now: float) -> Answer:
    return Answer(id=request_id, kind=None, outcome=Outcome.REFUSED, detail=detail, at=now)


def _refused(expected: str, found: str, where: str, next_step: str) -> TidegateError:
    return TidegateError(Code.REQUEST_REFUSED, expected=expected, found=found, where=where, next_step=next_step)
