"""One read serves all clients that wait: the newest view of one thing, once in a period, while a client waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

from starlette.concurrency import run_in_threadpool

ViewT = TypeVar("ViewT")


class SharedView(Generic[ViewT]):
    """The newest view that `read` gives, in a thread of the pool. Used from one event loop.

    Each view has a version. A waiter holds nothing here but its place in the wait: who comes late gets the newest view,
    and no other. `read` must not raise.
    """

    def __init__(
        self,
        read: Callable[[], ViewT],
        period_seconds: float,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._read = read
        self._period_seconds = period_seconds
        self._pause = pause
        self._newest: tuple[int, ViewT] | None = None
        self._came = asyncio.Event()
        self._waiting = 0
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """True if no reader waits, and nothing is read."""
        return self._waiting == 0 and self._reader is None

    async def newer(self, than: int) -> tuple[int, ViewT]:
        """The next view whose version is above `than`, with its version; 0: any. One that was read before a pause of
        all waiters is not given out.
        """
        if self._reader is None:
            than = max(than, 0 if self._newest is None else self._newest[0])
            self._reader = asyncio.create_task(self._go_on())
        self._waiting += 1
        try:
            while self._newest is None or self._newest[0] <= than:
                await self._came.wait()
            return self._newest
        finally:
            self._waiting -= 1

    async def _go_on(self) -> None:
        try:
            while True:
                view = await run_in_threadpool(self._read)
                self._newest = (1 if self._newest is None else self._newest[0] + 1, view)
                came, self._came = self._came, asyncio.Event()
                came.set()
                await self._pause(self._period_seconds)
                if self._waiting == 0:
                    return
        finally:
            self._reader = None


class Streams:
    """The shared views that clients follow, by key. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._views: dict[Hashable, SharedView[Any]] = {}

    def shared(self, key: Hashable, make: Callable[[], SharedView[ViewT]]) -> SharedView[ViewT]:
        """The view of this key: the one that is there, or else what `make` gives. Removes views that no client waits
        for."""
        with self._lock:
            self._views = {known: view for known, view in self._views.items() if known == key or not view.is_idle}
            if key not in self._views:
                self._views[key] = make()
            return self._views[key]
