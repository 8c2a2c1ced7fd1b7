"""A connection of a client: one that sends its request too slowly, or nothing, is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS_AT_MOST = 10.0
"""From the first moment of a connection, or from the first byte of its next request, to the end of the head."""


class BoundedConnection(H11Protocol):
    """uvicorn's own, with a limit of the time before a request has its whole head. uvicorn limits only the pause
    between two requests, so a few hundred clients that send a byte now and then would keep everybody out."""

    _late: asyncio.TimerHandle | None = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.access_log = False  # it has whole addresses; the setting of uvicorn's is one of the whole process

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._limit()
        else:
            self._unlimit()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unlimit()
        super().connection_lost(exc)

    def _limit(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS_AT_MOST, self.transport.close)

    def _unlimit(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
