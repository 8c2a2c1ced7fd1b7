"""Server-sent events: what changes in a job, and in all jobs of a storage.

An event of a job has an id, its *position*: the job's own id, and the numbers of the newest epoch and of the newest
failure that were sent before it or with it. Both are places in the job's histories, which no restart sets back. So a
client that comes again with `Last-Event-ID` gets every epoch and every failure behind it, once, as far as the history
reaches: 10,000 epochs, 100 failures. A client without a position begins with what comes next.

How many clients there are makes no difference to the job: they share what is read (`sharing`) and the bytes that are
sent. Nothing is queued for a client. It is asked for its next bytes when it has taken the last ones, and then gets what
is behind its position, with the newest state in place of those that it has missed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Protocol, TypeVar

from tidegate.web.sharing import SharedView

ViewT = TypeVar("ViewT")

HEARTBEAT_SECONDS: Final = 15.0
"""So often something is sent: a proxy ends a connection that is silent for long, and a server finds a gone client."""
_HEARTBEAT: Final = b":\n\n"
_RETRY: Final = b"retry: 2000\n\n"
"""When a client connects again, in milliseconds."""


class EventKind(Enum):
    """The events. `live`: the whole state of one job; `cards`: of all; `problem`: why there is no newer state now."""

    LIVE = "live"
    CARDS = "cards"
    EPOCH = "epoch"
    FAILURE = "failure"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the histories of one job. `epoch`, `failure`: the numbers of the newest ones that are known."""

    job_id: str
    epoch: int
    failure: int

    def __str__(self) -> str:
        return f"{self.job_id}.{self.epoch}.{self.failure}"

    @classmethod
    def of(cls, text: str) -> Position | None:
        """The position of an id; None for any other text."""
        job_id, *numbers = text.split(".")
        if len(numbers) != 2 or not all(each.isascii() and each.isdigit() and len(each) < 16 for each in numbers):
            return None
        return cls(job_id, int(numbers[0]), int(numbers[1]))


@dataclass(frozen=True, slots=True)
class Numbered:
    """An epoch or a failure: its number, and its JSON."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class JobNews:
    """The newest state of a job, as JSON in `live`, and the newest of its epochs and failures, oldest first. `newest`:
    how far its histories go; None if nothing was read yet. `problem`: why there is no newer state, as JSON; empty if
    there is one.

    `epoch_before`, `failure_before`: everything behind these numbers is here. What is behind lower ones has to be read.
    """

    newest: Position | None = None
    live: bytes = b""
    epochs: Sequence[Numbered] = ()
    failures: Sequence[Numbered] = ()
    epoch_before: int = 0
    failure_before: int = 0
    problem: bytes = b""

    def reaches(self, position: Position) -> bool:
        """True if everything behind the position is here."""
        return position.epoch >= self.epoch_before and position.failure >= self.failure_before


class ReadsBehind(Protocol):
    """Reads what is behind a position that `JobNews` does not reach. Does not block the loop of events."""

    async def __call__(self, position: Position) -> tuple[Sequence[Numbered], Sequence[Numbered]]:
        """Epochs and failures behind the position, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class ToldSoFar:
    """What a client knows: its position, and the last state and problem that it was sent. It has no position before
    there is a state."""

    position: Position | None = None
    live: bytes = b""
    problem: bytes = b""


def encoded(kind: EventKind, data: bytes, id: str = "") -> bytes:
    """An event as it is sent. `data`: JSON in one line."""
    head = f"id: {id}\n" if id else ""
    return f"{head}event: {kind.value}\ndata: ".encode() + data + b"\n\n"


def place_in(newest: Position, given: Position | None) -> Position:
    """The place of a client in the histories of a job that has come to `newest`. Without a position it is there. A
    position in an earlier job of this name is none in this job: all that this one has done is new."""
    if given is None:
        return newest
    return given if given.job_id == newest.job_id else Position(newest.job_id, 0, 0)


def events_behind(
    told: ToldSoFar, news: JobNews, epochs: Iterable[Numbered], failures: Iterable[Numbered]
) -> tuple[list[bytes], ToldSoFar]:
    """The events for a client that knows what `told` says, in the order in which they are to be sent, and what it knows
    then. Epochs and failures come first: a client that has a state has what led to it.
    """
    found: list[bytes] = []
    position = told.position
    if position is not None:
        for each in epochs:
            if each.number > position.epoch:
                position = replace(position, epoch=each.number)
                found.append(encoded(EventKind.EPOCH, each.data, str(position)))
        for each in failures:
            if each.number > position.failure:
                position = replace(position, failure=each.number)
                found.append(encoded(EventKind.FAILURE, each.data, str(position)))
        if news.live != told.live:
            found.append(encoded(EventKind.LIVE, news.live, str(position)))
    if news.problem and news.problem != told.problem:
        found.append(encoded(EventKind.PROBLEM, news.problem))
    return found, ToldSoFar(position, news.live, news.problem)


async def job_events(
    shared: SharedView[JobNews],
    reads_behind: ReadsBehind,
    last_event_id: str = "",
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> AsyncGenerator[bytes, None]:
    """The events of one job, for as long as the client takes them."""
    yield _RETRY
    told, given, version = ToldSoFar(), Position.of(last_event_id), 0
    silence = Silence(heartbeat_seconds)
    while True:
        seen = await silence.next(shared, version)
        if seen is None:
            yield _HEARTBEAT
            continue
        version, news = seen
        epochs, failures = news.epochs, news.failures
        if news.newest is not None:
            given = place_in(news.newest, given if told.position is None else told.position)
            told = replace(told, position=given)
            if not news.reaches(given):
                epochs, failures = await reads_behind(given)
        events, told = events_behind(told, news, epochs, failures)
        for event in events:
            yield event
            silence.ends()


async def state_events(
    shared: SharedView[bytes], kind: EventKind, heartbeat_seconds: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[bytes, None]:
    """A state as JSON, as often as it changes. A client that comes again gets the newest one."""
    yield _RETRY
    version, last, silence = 0, b"", Silence(heartbeat_seconds)
    while True:
        seen = await silence.next(shared, version)
        if seen is None:
            yield _HEARTBEAT
            continue
        version, state = seen
        if state != last:
            yield encoded(kind, state)
            silence.ends()
            last = state


class Silence:
    """How long a client has been sent nothing."""

    def __init__(self, at_most_seconds: float) -> None:
        self._at_most_seconds = at_most_seconds
        self.ends()

    def ends(self) -> None:
        """Something is sent."""
        self._until = time.monotonic() + self._at_most_seconds

    async def next(self, shared: SharedView[ViewT], version: int) -> tuple[int, ViewT] | None:
        """The next view above a version; None, once, when the silence has lasted long enough. So a storage that does
        not answer ends no connection.
        """
        try:
            return await asyncio.wait_for(shared.newer(version), max(self._until - time.monotonic(), 0.0))
        except asyncio.TimeoutError:
            self.ends()
            return None
