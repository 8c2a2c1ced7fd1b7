"""Divides the rows of an epoch among its tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TypeVar

ItemT = TypeVar("ItemT")


def shared_whole(wanted: Sequence[ItemT], rows: Callable[[ItemT], int], tasks: int) -> list[list[ItemT]]:
    """What each of at most `tasks` tasks reads: the rows are shared as evenly as whole items allow. `rows`: how many an
    item has.
    """
    shares: list[list[ItemT]] = [[] for _ in range(min(tasks, len(wanted)))]
    heap = [(0, number) for number in range(len(shares))]
    for each in sorted(wanted, key=rows, reverse=True):  # the largest first
        held, number = heappop(heap)
        shares[number].append(each)
        heappush(heap, (held + rows(each), number))
    return shares
