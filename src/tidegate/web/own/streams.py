"""The events of one job and of all jobs, for those who follow them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tidegate.core.errors import TidegateError
from tidegate.operate import ENTRIES_KEPT, DoneCheckpoint, Failure, JobClient
from tidegate.web.events import EventKind, JobNews, Numbered, Position, ReadsBehind, job_events, state_events
from tidegate.web.own.cards import cards
from tidegate.web.own.histories import epoch_row, failure_shape
from tidegate.web.own.live import live
from tidegate.web.problems import problem_of
from tidegate.web.routing import RouteRequest
from tidegate.web.shapes import JobCards
from tidegate.web.sharing import SharedView
from tidegate.web.site import Site

EPOCHS_HELD = 200
"""So many of the newest epochs of a followed job are held for all its readers; what is older is read when it is
needed."""

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def get_job_events(asked: RouteRequest) -> StreamingResponse:
    """`GET /jobs/:id/events`. Raises JOB_UNKNOWN, before anything is sent."""
    site, client = asked.site, asked.site.client(asked.path["job"])
    site.info(client)
    shared = site.streams.shared(
        client.name, lambda: SharedView(JobReader(site, client).read, site.watch.period_seconds)
    )
    return _streamed(job_events(shared, _behind(site, client), asked.headers.get("last-event-id", "")))


def get_cards_events(asked: RouteRequest) -> StreamingResponse:
    """`GET /events`."""
    site = asked.site
    shared = site.streams.shared(None, lambda: SharedView(CardsReader(site).read, site.watch.period_seconds))
    return _streamed(state_events(shared, EventKind.CARDS))


class JobReader:
    """Reads the news of one job. Each call reads the state, and of the histories only what is new."""

    def __init__(self, site: Site, client: JobClient) -> None:
        self._site = site
        self._client = client
        self._news = JobNews()

    def read(self) -> JobNews:
        """The newest state; the last one with its problem if the job cannot be read now."""
        try:
            self._news = self._read()
        except TidegateError as error:
            self._news = replace(self._news, problem=msgspec.json.encode(problem_of(error)))
        return self._news

    def _read(self) -> JobNews:
        state, held = live(self._site, self._client.name), self._news
        job_id = self._site.info(self._client).job.job_id  # of the same view as the state
        if held.newest is not None and job_id not in {"", held.newest.job_id}:
            held = JobNews()  # another job has the name now
        newest = held.newest or Position(job_id, 0, 0)
        at_most = EPOCHS_HELD if held.newest is None else ENTRIES_KEPT
        epochs = (*held.epochs, *_rows(self._client.epochs(at_most, behind=newest.epoch)))
        failures = (*held.failures, *_shapes(self._client.failures(newest.failure)))
        kept = epochs[-EPOCHS_HELD:]
        return JobNews(
            newest=Position(newest.job_id, _newest_of(epochs), _newest_of(failures)),
            live=msgspec.json.encode(state),
            epochs=kept,
            failures=failures[-EPOCHS_HELD:],
            epoch_before=kept[0].number - 1 if len(kept) == EPOCHS_HELD else held.epoch_before,
            failure_before=failures[-EPOCHS_HELD:][0].number - 1 if len(failures) > EPOCHS_HELD else 0,
        )


class CardsReader:
    """Reads the cards of all jobs. The time of the reading alone is no change."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._last: JobCards | None = None
        self._data = b""

    def read(self) -> bytes:
        """The cards as JSON; the last ones if the storage cannot be read now."""
        try:
            found = cards(self._site)
        except TidegateError:
            return self._data
        if self._last is None or found.jobs != self._last.jobs:
            self._last, self._data = found, msgspec.json.encode(found)
        return self._data


def _behind(site: Site, client: JobClient) -> ReadsBehind:
    """Reads the histories behind a position, once for all that come back with the same one. What cannot be read now is
    read with the next news: the position stays."""

    def read(position: Position) -> tuple[Sequence[Numbered], Sequence[Numbered]]:
        epochs = client.epochs(ENTRIES_KEPT, behind=position.epoch)
        return _rows(epochs), _shapes(client.failures(position.failure))

    async def behind(position: Position) -> tuple[Sequence[Numbered], Sequence[Numbered]]:
        key = ("behind", client.name, position)
        try:
            return await run_in_threadpool(site.watch.view, key, lambda: read(position))
        except TidegateError:
            return (), ()

    return behind


def _rows(epochs: Sequence[DoneCheckpoint]) -> Sequence[Numbered]:
    """Epochs as they are sent, oldest first. Those of older releases have no number, and are not sent."""
    return [Numbered(each.number, msgspec.json.encode(epoch_row(each))) for each in reversed(epochs) if each.number]


def _shapes(failures: Sequence[Failure]) -> Sequence[Numbered]:
    return [Numbered(each.number, msgspec.json.encode(failure_shape(each))) for each in reversed(failures)]


def _newest_of(some: Sequence[Numbered]) -> int:
    return some[-1].number if some else 0


def _streamed(events: AsyncGenerator[bytes, None]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)
