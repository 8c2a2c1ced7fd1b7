"""Make a failing seed smaller: leave out faults as long as it still fails (delta debugging, Zeller and Hildebrandt)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulator.faults import Injection
from tests.simulator.run import run_seed


def shrink_seed(seed: int) -> list[Injection]:
    """The faults without any of which the seed ends well; as drawn when it does not fail."""
    kept = run_seed(seed).injections

    def fails(injections: Sequence[Injection]) -> bool:
        return bool(run_seed(seed, injections=injections).complaints)

    return shrink(kept, fails) if fails(kept) else kept


def shrink(injections: Sequence[Injection], fails: Callable[[Sequence[Injection]], bool]) -> list[Injection]:
    """A part of `injections` that still fails, of which no single one can be left out."""
    kept, parts = list(injections), 2
    while len(kept) > 1:
        size = max(1, len(kept) // parts)
        for begin in range(0, len(kept), size):
            rest = kept[:begin] + kept[begin + size :]
            if fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return [] if kept and fails([]) else kept
