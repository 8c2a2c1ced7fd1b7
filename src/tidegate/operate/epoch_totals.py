"""Totals over all done epochs of a job: they only rise, also when the history forgets epochs or a driver ends."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tidegate.operate.done_checkpoint import DoneCheckpoint, TimedPhase

BOUNDS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
"""The upper bounds of a spread's counts, in milliseconds; the last count has none. They are a part of the format of the
history: other bounds need another name in `QueryTotals`.
"""


class Spread(msgspec.Struct, frozen=True, array_like=True):
    """How times are spread. `counts`: one for each of BOUNDS_MS and one above them all, each with the times up to its
    bound and above the bound before. `sum_ms`: the sum of all times, in milliseconds.
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_MS) + 1)
    sum_ms: float = 0.0

    def plus(self, times_ms: Iterable[float]) -> Spread:
        """The spread with these times, in milliseconds."""
        counts, total = list(self.counts), self.sum_ms
        for each in times_ms:
            counts[bisect_left(BOUNDS_MS, each)] += 1
            total += each
        return Spread(tuple(counts), round(total, 2))


class QueryTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The totals of one query, in the units of `DoneCheckpoint`. `last`: its newest done epoch. `read`: the sum over
    the epochs that have this figure. `took`: how the durations of its epochs are spread. `phases`: how the times of
    each phase are spread.
    """

    last: DoneCheckpoint
    epochs: int = 0
    rows: int = 0
    read: int = 0
    committed: int = 0
    aborted: int = 0
    redone: int = 0
    shown_again: int = 0
    dead_letters: int = 0
    failed: int = 0
    took: Spread = Spread()
    phases: dict[TimedPhase, Spread] = {}

    def plus(self, done: Sequence[DoneCheckpoint]) -> QueryTotals:
        """The totals with these epochs of the query, oldest first; at least one."""
        by_phase: defaultdict[TimedPhase, list[float]] = defaultdict(list)
        for each in done:
            for phase, took_ms in each.phases.items():
                by_phase[phase].append(took_ms)
        grown = {phase: self.phases.get(phase, Spread()).plus(times) for phase, times in by_phase.items()}
        return QueryTotals(
            last=done[-1],
            epochs=self.epochs + len(done),
            rows=self.rows + sum(each.rows for each in done),
            read=self.read + sum(each.read or 0 for each in done),
            committed=self.committed + sum(each.committed for each in done),
            aborted=self.aborted + sum(each.aborted for each in done),
            redone=self.redone + sum(each.redone for each in done),
            shown_again=self.shown_again + sum(each.shown_again for each in done),
            dead_letters=self.dead_letters + sum(each.dead_letters for each in done),
            failed=self.failed + sum(each.failed for each in done),
            took=self.took.plus(each.duration_ms for each in done if each.duration_ms is not None),
            phases={phase: both for phase in TimedPhase if (both := grown.get(phase) or self.phases.get(phase))},
        )


def totals_with(before: Mapping[str, QueryTotals], done: Iterable[DoneCheckpoint]) -> dict[str, QueryTotals]:
    """The totals by query: those `before`, with these epochs, oldest first."""
    by_query: defaultdict[str, list[DoneCheckpoint]] = defaultdict(list)
    for each in done:
        by_query[each.query].append(each)
    return {
        **before,
        **{query: before.get(query, QueryTotals(last=some[0])).plus(some) for query, some in by_query.items()},
    }


def epochs_in(totals: Mapping[str, QueryTotals]) -> int:
    """The number of done epochs of all queries."""
    return sum(each.epochs for each in totals.values())
