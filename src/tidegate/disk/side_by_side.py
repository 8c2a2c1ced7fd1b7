"""Does the same with each of many files, in a few threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

THREADS = 8
"""Syncs side by side share one journal commit of the file system, and hashing lets other threads run; more threads were
no faster."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def side_by_side(act: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> Iterator[ResultT]:
    """What `act` gives for each, in their order. The first error ends it: nothing more begins then, and what has begun
    is waited for.

    The threads are daemons, and no `ThreadPoolExecutor` has them, which every process joins at its end: where a disk
    hangs, it would not end.
    """
    if len(items) < THREADS:
        yield from map(act, items)
        return
    outcomes = [Future[ResultT]() for _ in items]
    work = _Work(act, list(zip(outcomes, items, strict=True)))
    threads: list[threading.Thread] = []
    try:
        for _ in range(THREADS):
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
    """What is to be done, and by nobody yet."""

    def __init__(self, act: Callable[[ItemT], ResultT], each: list[tuple[Future[ResultT], ItemT]]) -> None:
        self._act = act
        self._left = deque(each)

    def go_on(self) -> None:
        """Do one after another, until nothing is left. Who fails leaves nothing to the others; what stands before it in
        their order was begun before."""
        while True:
            try:
                outcome, item = self._left.popleft()
            except IndexError:
                return
            try:
                outcome.set_result(self._act(item))
            except BaseException as error:  # noqa: BLE001 (whoever waits for it hears of it)
                self.end()
                outcome.set_exception(error)

    def end(self) -> None:
        """Nothing more begins."""
        self._left.clear()
