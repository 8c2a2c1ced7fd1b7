"""The open requests of a page's process to jobs.

A request is a file in its job's folder: any process finds it again by its id, also after this page has died. Only what
the folder cannot hold is done here: a request waits here while no process of the job can take it, and the savepoint of
a job that has ended is copied here. One thread looks at all open requests in turn, and ends with the last of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from tidegate.core.errors import TidegateError
from tidegate.operate import Folder, JobClient, Kind, SavepointFormat, Stage, Ticket, TicketState, TicketView
from tidegate.web.problems import RequestProblem

OPEN_AT_MOST = 100
ENDED_KEPT = 100
"""Requests that are over and still known here. No file tells that a job did not run, and what has prevented a copy."""

_BETWEEN_LOOKS_SECONDS = 0.2
_BETWEEN_LOOKS_BY_REQUESTS_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAction:
    """A request to a job, as the caller names it."""

    kind: Kind
    id: str | None = None
    into: str | None = None
    format: SavepointFormat = SavepointFormat.NATIVE


@dataclass(slots=True)
class _Open:
    """A ticket that must be polled. `ended_with`: what `poll` has raised."""

    client: JobClient
    ticket: Ticket
    view: TicketView
    until: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended_with: TidegateError | None = None

    @property
    def is_over(self) -> bool:
        return self.ended_with is not None or self.view.state is not TicketState.PENDING

    def look(self) -> TicketView:
        """One look, unless another thread looks right now. Raises what the request has ended with."""
        if not self.is_over and self.lock.acquire(blocking=False):
            try:
                self.view = self.ticket.poll()
            except TidegateError as error:
                self.ended_with = error
            finally:
                self.lock.release()
        if self.ended_with is not None:
            raise self.ended_with
        return self.view


class Tickets:
    """All requests of one page. `changed` is called after a request has changed a job. Any thread may use it."""

    def __init__(
        self, changed: Callable[[], None] = lambda: None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._changed = changed
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], _Open] = {}
        self._thread: threading.Thread | None = None

    def ask(self, client: JobClient, wanted: WantedAction) -> TicketView:
        """Send a request, once for each id. Raises REQUEST_REFUSED if the id belongs to another request, and
        `RequestProblem` if too many requests are open."""
        with self._lock:  # so that a double click is one ticket
            known = self._open.get((client.name, wanted.id)) if wanted.id else None
            if known is None or known.is_over:
                self._demand_room()  # before the request is sent
                asked = client.ask(wanted.kind, into=wanted.into, format=wanted.format, id=wanted.id)
                known = self._hold(client, asked)
            else:
                _must_be_the_same(known.ticket, wanted)
        view = known.look()
        self._changed()
        return view

    def look(self, client: JobClient, request_id: str) -> TicketView:
        """A request of this page or of any other process. Raises `RequestProblem` if the job has none with this id."""
        known = self._open.get((client.name, request_id))
        if known is not None:
            return known.look()
        view = client.look(request_id)
        if view is None:
            raise RequestProblem(
                HTTPStatus.NOT_FOUND,
                f"job {client.name} has no request {request_id}",
                "ask again with this id: the same id twice is the same request",
            )
        if view.state is TicketState.PENDING:
            self._adopt(client, request_id)
        return view

    @property
    def open_count(self) -> int:
        """The number of requests that are not over."""
        return sum(not each.is_over for each in list(self._open.values()))

    def _adopt(self, client: JobClient, request_id: str) -> None:
        """Care for the request of a page that has died: the job's driver may die, too."""
        with self._lock:
            ticket = None if (client.name, request_id) in self._open else client.ticket(request_id)
            if ticket is not None:
                self._demand_room()
                self._hold(client, ticket)

    def _demand_room(self) -> None:
        """Raises `RequestProblem` if too many requests are open. The caller holds the lock."""
        self._drop_old()
        if self.open_count >= OPEN_AT_MOST:
            raise RequestProblem(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{OPEN_AT_MOST} requests are open", "wait until one of them is over"
            )

    def _hold(self, client: JobClient, ticket: Ticket) -> _Open:
        """The caller holds the lock, and has found room."""
        pending = TicketView(id=ticket.id, kind=ticket.kind, state=TicketState.PENDING, stage=Stage.UNASKED)
        held = _Open(client, ticket, pending, self._clock() + ticket.patience_seconds)
        self._open[client.name, ticket.id] = held
        if self._thread is None:
            self._thread = threading.Thread(target=self._care, name="tidegate-page-tickets", daemon=True)
            self._thread.start()
        return held

    def _care(self) -> None:
        while True:
            with self._lock:
                cared = [each for each in self._open.values() if self._needs_care(each)]
                if not cared:
                    self._thread = None
                    return
            for each in cared:
                with suppress(TidegateError):  # it is kept, for the client that asks
                    each.look()
                if each.is_over:
                    self._changed()
            time.sleep(_pause(cared))

    def _needs_care(self, each: _Open) -> bool:
        """A request waits no longer than a command would, or while a client looks at it. A copy always ends."""
        return not each.is_over and (each.view.stage is Stage.SAVING or self._clock() < each.until)

    def _drop_old(self) -> None:
        """Forget the oldest requests that are over, or that no client has asked about for long. The caller holds the
        lock."""
        idle = [key for key, each in self._open.items() if not self._needs_care(each)]
        for key in idle[: max(len(idle) - ENDED_KEPT, 0)]:
            del self._open[key]


def _pause(cared: Sequence[_Open]) -> float:
    """Seconds until the next look. Each look copies a part."""
    if any(each.view.stage is Stage.SAVING and not each.is_over for each in cared):
        return 0.0
    local = all(Folder.of(each.client.folder).is_local for each in cared)
    return _BETWEEN_LOOKS_SECONDS if local else _BETWEEN_LOOKS_BY_REQUESTS_SECONDS


def _must_be_the_same(ticket: Ticket, wanted: WantedAction) -> None:
    into = None if wanted.into is None else str(Folder.of(wanted.into))
    if (ticket.kind, ticket.into, ticket.format) != (wanted.kind, into, wanted.format):
        raise RequestProblem(
            HTTPStatus.CONFLICT,
            f"the id {ticket.id} belongs to another request, `{ticket.kind.value}`",
            "choose another id",
        )


KINDS: Mapping[str, Kind] = {each.value: each for each in Kind}
"""By the names that clients use."""
