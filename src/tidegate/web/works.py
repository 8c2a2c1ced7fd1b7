"""Long works of the page's own process: verifying a savepoint, checking a restore, disposing of a savepoint.

They change no job, and each of them may be repeated. So their results are kept in memory only: after the page has
ended, a client asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tidegate.web.problems import RequestProblem

AT_ONCE = 2
OPEN_AT_MOST = 20
KEPT = 100


@dataclass(frozen=True, slots=True)
class PageWork:
    """A work that has begun. `what`: its kind, and what it is about."""

    id: str
    what: tuple[str, Hashable]
    result: Future[Any]

    @property
    def object(self) -> Hashable:
        """What it is about."""
        return self.what[1]


class Works:
    """All works of one page. `changed` is called after each one. Any thread may use it."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._works: dict[str, PageWork] = {}
        self._may_run = threading.Semaphore(AT_ONCE)

    def begin(self, id: str, what: tuple[str, Hashable], run: Callable[[], object]) -> PageWork:
        """Begin a work, once for each id. Raises `RequestProblem` if the id belongs to another work, and if too many
        works wait."""
        with self._lock:
            known = self._works.get(id)
            if known is not None and known.what != what:
                raise RequestProblem(HTTPStatus.CONFLICT, f"the id {id} belongs to another work", "choose another id")
            if known is not None:
                return known
            ended = [key for key, each in self._works.items() if each.result.done()]
            if len(self._works) - len(ended) >= OPEN_AT_MOST:
                raise RequestProblem(
                    HTTPStatus.SERVICE_UNAVAILABLE, f"{OPEN_AT_MOST} works are open", "wait until one of them is over"
                )
            for key in ended[: max(len(ended) - KEPT, 0)]:
                del self._works[key]
            work = self._works[id] = PageWork(id, what, Future())
        threading.Thread(target=self._run, args=(work, run), name="tidegate-page-work", daemon=True).start()
        return work

    def known(self, id: str, kind: str) -> PageWork:
        """The work of this id, whose `what` begins with `kind`. Raises `RequestProblem` if there is none."""
        work = self._works.get(id)
        if work is None or work.what[0] != kind:
            raise RequestProblem(
                HTTPStatus.NOT_FOUND, f"there is no work {id}", "the page may have been started again: ask once more"
            )
        return work

    def _run(self, work: PageWork, run: Callable[[], object]) -> None:
        with self._may_run:
            try:
                result = run()
            except BaseException as error:  # noqa: BLE001 (the client that asks gets it)
                work.result.set_exception(error)
            else:
                work.result.set_result(result)
        self._changed()
