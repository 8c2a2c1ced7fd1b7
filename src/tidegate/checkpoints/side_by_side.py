"""Does the same with each of many files, in a few threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

THREADS = 8
"""Syncs side by side share one journal commit of the file system, and hashing lets other threads run; more threads were
no faster."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def side_by_side(act: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> Iterator[ResultT]:
    """What `act` gives for each, in their order. The first error ends it: nothing more begins then."""
    if len(items) < THREADS:
        yield from map(act, items)
        return
    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(act, items)
