"""The request desk of a job: other processes put requests there, and its driver answers them.

A request is the file `control/requests/<id>.json`, its answer is `control/answers/<id>.json`. So both work wherever the
job's folder is reachable. The caller may choose the id: a request that is sent again under its id is the same request
and has one answer. A request names the incarnation of the job that it is meant for. A later incarnation does not
execute it.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import Flaw, ObjectFormat, Unreadable
from tidegate.core.names import NAME_RULE, is_name, shown
from tidegate.core.records import SavepointFormat
from tidegate.operate.beat import Incarnation
from tidegate.operate.refusals import request_refused
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where

VERSION = 1
"""The version of requests and answers that this release writes. A newer version is refused."""

ANSWERS_KEPT = 100

REQUEST_BYTES_AT_MOST = 64 * 1024
"""Size limit of a request, which has some hundred bytes. A larger file is not read."""

REQUESTS = "control/requests"
ANSWERS = "control/answers"


class Kind(Enum):
    """The kinds of requests to a job."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    STOP = "stop"
    DRAIN = "drain"
    CANCEL = "cancel"
    STOP_WITH_SAVEPOINT = "stop-with-savepoint"
    DRAIN_WITH_SAVEPOINT = "drain-with-savepoint"
    CANCEL_WITH_SAVEPOINT = "cancel-with-savepoint"


ENDS_A_JOB = frozenset({Kind.STOP, Kind.CANCEL})
"""Requests that a supervisor can execute; all others need a driver."""


WITH_SAVEPOINT = frozenset({Kind.STOP_WITH_SAVEPOINT, Kind.DRAIN_WITH_SAVEPOINT, Kind.CANCEL_WITH_SAVEPOINT})
"""Requests that end a job with a savepoint of its end."""


class Outcome(Enum):
    """All possible outcomes of a request."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was done; the answer gives the reason."""
    PENDING = "pending"
    """The job has ended, and a decided epoch waits for a sink: the next start commits it."""
    FAILED = "failed"
    """The job failed before the request was done."""
    TOO_LATE = "too late"
    """The request was meant for an incarnation of the job that has ended."""
    NOT_RUNNING = "not running"
    """No job was running that could execute the request."""
    UNKNOWN = "unknown"
    """The job's driver died. It is unknown whether the request was done."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to one incarnation of a job. `into`: the folder for a savepoint; None: the job's own setting. `format`:
    the format of its state."""

    id: str
    kind: Kind
    to: Incarnation
    asked_at: float
    asked_by: str
    into: str | None = None
    format: SavepointFormat = SavepointFormat.NATIVE
    version: int = VERSION


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a request. `kind` is None if the request was unreadable.

    `epochs`: by query, the newest epoch that is done and that the answer covers. `savepoint`: path of the savepoint, if
    one was taken.
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
    """The format in the request; `into` likewise."""
    version: int = VERSION

    @property
    def counts_for_good(self) -> bool:
        """True if a repeated request with this id gets the same answer.

        A failed savepoint is tried again. Its folder is named by the id, so there are never two savepoints of one
        request.
        """
        return self.outcome is Outcome.DONE or self.kind not in {Kind.SAVEPOINT, *WITH_SAVEPOINT}


class Desk:
    """The requests and answers of the job in one folder. Any number of processes may use it at once."""

    def __init__(self, job_folder: Where) -> None:
        self._storage = open_storage(job_folder)
        self._passed_over: set[str] = set()
        """Names of files that were reported in the log already."""

    # --- requests ------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Request:
        """Store a request, unless its id is taken. Return the request that is stored under the id, answered or not.

        Raises REQUEST_REFUSED if the id is not a valid name, or belongs to a different request.
        """
        answered = self.answer_to(request.id)
        if answered is not None:
            must_stand_for(request.kind, request.into, request.format, answered)
            if answered.counts_for_good:
                return request
            self.withdraw(answered)
        if self._storage.put_if_absent(_request(request.id), _REQUEST.encode(request)):
            return request
        standing = self.standing(request.id)
        if standing is not None:
            must_stand_for(request.kind, request.into, request.format, standing)
        return standing or request

    def answer_to(self, request_id: str) -> Answer | None:
        """The answer to a request; None if there is none yet."""
        _must_be_an_id(request_id)
        data = self._storage.read(_answer(request_id))
        if data is None:
            return None
        try:
            return _ANSWER.decode(data)
        except Unreadable as flaw:
            raise flaw.error(
                self._storage.where(_answer(request_id)),
                "check the job with `tidegate info`, then repeat the request with another id",
                newer_step="use the release that runs the job",
            ) from None

    def standing(self, request_id: str) -> Request | None:
        """The unanswered request with this id; None if there is none or if it is unreadable."""
        _must_be_an_id(request_id)
        try:
            return self._request_in(_request(request_id), request_id)
        except Unreadable:
            return None

    def withdraw(self, answer: Answer) -> None:
        """Remove an answer that is not final, so that the request can be answered again."""
        if not answer.counts_for_good:
            self._storage.delete(_answer(answer.id))

    def forget(self, answer: Answer) -> None:
        """Remove an answer whose savepoint no longer exists, so that the request can be answered again."""
        self._storage.delete(_answer(answer.id))

    # --- answers -------------------------------------------------------------------------------------------

    def open_requests(self, now: float) -> list[Request]:
        """The requests without an answer, oldest first. Unreadable requests and requests of a newer version get a
        refusal here."""
        found = [self._read(name, now) for name in self._storage.list(REQUESTS) if name.endswith(_SUFFIX)]
        return sorted((request for request in found if request is not None), key=lambda each: (each.asked_at, each.id))

    def answer(self, answer: Answer) -> Answer:
        """Answer a request and return the stored answer: of two answers at once the first counts. The oldest answers
        are removed."""
        created = self._storage.put_if_absent(_answer(answer.id), _ANSWER.encode(answer))
        counts = answer if created else self.answer_to(answer.id) or answer
        self._storage.delete(_request(answer.id))
        self._drop_old_answers()
        return counts

    def _read(self, name: str, now: float) -> Request | None:
        """One request; None if it is gone, was answered, or gets a refusal here.

        A file that cannot be moved away is skipped, so that other requests are still served.
        """
        try:
            return self._read_one(name, now)
        except TidegateError as error:
            if name not in self._passed_over:
                self._passed_over.add(name)
                _warn("skipped the request %s: %s", shown(name), error)
            return None

    def _read_one(self, name: str, now: float) -> Request | None:
        path, request_id = f"{REQUESTS}/{name}", name.removesuffix(_SUFFIX)
        if not is_name(request_id):
            self._set_aside(path, f"its name is not a valid id: {NAME_RULE}")
            return None
        if (
            self._storage.read(_answer(request_id)) is not None
        ):  # the process died after it wrote the answer and before it removed the request
            self._storage.delete(path)
            return None
        try:
            return self._request_in(path, request_id)
        except Unreadable as flaw:
            if flaw.flaw is Flaw.NEWER:
                knows = f"the request has {flaw.found}, and this job's release knows {flaw.expected}"
                self.answer(_refusal(request_id, f"{knows}: use the release that runs the job", now))
                return None
            self._set_aside(path, str(flaw))
            self.answer(_refusal(request_id, f"the request cannot be read ({flaw}): repeat it with another id", now))
        return None

    def _request_in(self, path: str, request_id: str) -> Request | None:
        """The request in a file; None if the file is gone. Raises `Unreadable` for any other content."""
        size = self._size(path)
        if size > REQUEST_BYTES_AT_MOST:
            raise _no_request(f"it has {size} bytes, and none has more than {REQUEST_BYTES_AT_MOST}")
        data = self._storage.read(path)
        if data is None:
            return None
        request = _REQUEST.decode(data)
        if request.id != request_id:
            raise _no_request(f"its id is {shown(request.id)}")
        if "\0" in (request.into or ""):
            raise _no_request(f"no folder has the name {shown(request.into or '')}")
        return request

    def _size(self, path: str) -> int:
        seen = self._storage.look(path)
        return 0 if seen is None else seen.size_bytes

    def _set_aside(self, path: str, why: str) -> None:
        kept_as = self._storage.set_aside(path)
        if kept_as is None:  # removed meanwhile
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
        return 0.0 if seen is None else seen.written_at  # another process removed it


def must_stand_for(kind: Kind, into: str | None, form: SavepointFormat, known: Request | Answer) -> None:
    """Raise REQUEST_REFUSED if the id belongs to a different request."""
    if (known.kind, known.into, known.format) != (kind, into, form):
        raise request_refused(
            f"an unused id, or one that belongs to {_meant(kind, into, form)}",
            f"{known.id}, which belongs to {_meant(known.kind, known.into, known.format)}",
            "the request's id",
            "choose another id",
        )


def _meant(kind: Kind | None, into: str | None, form: SavepointFormat) -> str:
    named = "an unreadable request" if kind is None else f"`{kind.value}`"
    kept = "" if form is SavepointFormat.NATIVE else f" ({form.value})"
    return f"{named}{kept}" if into is None else f"{named}{kept} in {into}"


_REQUEST = ObjectFormat(Request, "a request to a job", VERSION, field="version")
_ANSWER = ObjectFormat(Answer, "an answer of a job", VERSION, field="version")


def _no_request(found: str) -> Unreadable:
    return Unreadable(Flaw.FIELDS, _REQUEST.noun, found)


_SUFFIX = ".json"


def _warn(text: str, *values: object) -> None:
    from logging import getLogger  # not needed to inspect jobs: loaded here

    getLogger("tidegate").warning(text, *values)


def _request(request_id: str) -> str:
    return f"{REQUESTS}/{request_id}{_SUFFIX}"


def _answer(request_id: str) -> str:
    return f"{ANSWERS}/{request_id}{_SUFFIX}"


def _must_be_an_id(request_id: str) -> None:
    if not is_name(request_id):
        raise request_refused(f"an id of {NAME_RULE}", shown(request_id), "the request's id", "choose another id")


def _refusal(request_id: str, detail: str, now: float) -> Answer:
    return Answer(id=request_id, kind=None, outcome=Outcome.REFUSED, detail=detail, at=now)
