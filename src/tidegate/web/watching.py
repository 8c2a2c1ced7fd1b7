"""Views of jobs that all readers share. However many readers there are, a job's files are read at a bounded rate.

Each view is read at most once in a period: a second on a disk, 15 seconds where each read is a request to a server,
and a driver reports every ten.
Readers that ask meanwhile get the same view. Two readers at once cause one read. What is not asked for is not read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

ViewT = TypeVar("ViewT")

ON_A_DISK_SECONDS = 1.0
BY_REQUESTS_SECONDS = 15.0
_VIEWS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class _HeldView:
    until: float
    view: Future[Any]


class Watch:
    """The views of one storage. `period_seconds`: how old a view may be when it is given out. Any thread may ask."""

    def __init__(self, period_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.period_seconds = period_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._taken: dict[Hashable, _HeldView] = {}

    def view(self, key: Hashable, read: Callable[[], ViewT], *, periods: float = 1.0) -> ViewT:
        """The view of this key: a young one, or what `read` gives now. Raises what `read` raises, to all that wait for
        it; an error is not kept. `periods`: how many periods this view stays young.
        """
        with self._lock:
            now = self._clock()
            known = self._taken.get(key)
            if known is not None and (not known.view.done() or now < known.until):
                mine, view = False, known.view
            else:
                mine, view = True, Future[Any]()
                self._drop_old(now)
                self._taken[key] = _HeldView(now + self.period_seconds * periods, view)
        if mine:
            self._fill(key, view, read)
        return view.result()

    def forget(self) -> None:
        """Read everything anew: an action has changed what the views show."""
        with self._lock:
            self._taken = {key: each for key, each in self._taken.items() if not each.view.done()}

    def _fill(self, key: Hashable, view: Future[Any], read: Callable[[], object]) -> None:
        try:
            view.set_result(read())
        except BaseException as error:  # noqa: BLE001 (the readers that wait get it)
            with self._lock:
                if self._taken.get(key) is not None and self._taken[key].view is view:
                    del self._taken[key]
            view.set_exception(error)

    def _drop_old(self, now: float) -> None:
        if len(self._taken) >= _VIEWS_KEPT:
            self._taken = {key: each for key, each in self._taken.items() if now < each.until}
