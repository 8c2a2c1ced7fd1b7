"""Does the same with each of many files, in a few threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

THREADS = 8
"""Parallel syncs share one journal commit of the file system, and hashing lets other threads run. More threads were not
faster.
"""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def side_by_side(act: Callable[[ItemT], ResultT], items: Sequence[ItemT], at_least: int = THREADS) -> Iterator[ResultT]:
    """The results of `act` for each file, in order. After the first error nothing more begins, and running calls are
    awaited. Fewer files than `at_least` are done one after the other.

    The threads are daemons. A process joins the threads of a `ThreadPoolExecutor` at its end, so it would not end if a
    disk hangs.
    """
    if len(items) < at_least:
        yield from map(act, items)
        return
    outcomes = [Future[ResultT]() for _ in items]
    work = _Work(act, list(zip(outcomes, items, strict=True)))
    threads: list[threading.Thread] = []
    try:
        for _ in range(min(THREADS, len(items))):
            thread = threading.Thread(target=work.go_on, name="tidegate-side-by-side", daemon=True)
            thread.start()
            threads.append(thread)
        for outcome in outcomes:
            yield outcome.result()
    finally:
        work.end()
        for thread in threads:
            thread.join()


class _Work(Generic[ItemT, ResultT]):
    """The files that no thread has taken yet."""

    def __init__(self, act: Callable[[ItemT], ResultT], each: list[tuple[Future[ResultT], ItemT]]) -> None:
        self._act = act
        self._left = deque(each)

    def go_on(self) -> None:
        """Process one file after another, until none is left. After an error no thread takes another file; files before
        the failed one were taken earlier.
        """
        while True:
            try:
                outcome, item = self._left.popleft()
            except IndexError:
                return
            try:
                outcome.set_result(self._act(item))
            except BaseException as error:  # noqa: BLE001 (raised to the waiting thread)
                self.end()
                outcome.set_exception(error)

    def end(self) -> None:
        """Nothing more begins."""
        self._left.clear()
