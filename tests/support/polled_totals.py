"""Running totals by key in a store whose rows are visible inside their epoch, and what a reader sees of them.

Each file of `killed_epochs` has one number for each key.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

from tests.support.killed_epochs import EACH, FILES

KEYS = EACH
Total = tuple[int, int]
"""The newest number of a key, and the sum of its numbers."""


def total_of(key: int, files: int = FILES) -> Total:
    """The total of a key behind so many files."""
    numbers = [key + KEYS * file for file in range(files)]
    return numbers[-1], sum(numbers)


@contextmanager
def polled(look: Callable[[], Mapping[int, Total]]) -> Iterator[dict[int, list[Total]]]:
    """Looks again and again. By key: each total that was seen, in the order of the looks."""
    seen: dict[int, list[Total]] = {}
    over = threading.Event()

    def look_again() -> None:
        while not over.wait(0.05):
            for key, total in look().items():
                totals = seen.setdefault(key, [])
                if totals[-1:] != [total]:
                    totals.append(total)

    reader = threading.Thread(target=look_again)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join(60)


def nothing_else_was_seen(seen: Mapping[int, list[Total]]) -> None:
    """Each look at a key has shown its total after some file, and never an earlier one than the look before."""
    assert seen, "the reader has seen rows"
    for key, totals in seen.items():
        _are_totals(key, totals)
        assert totals == sorted(totals), f"key {key} went back"


def each_key_went_back_once(seen: Mapping[int, list[Total]]) -> None:
    """What a reader sees of a restore: later totals, then earlier ones, which grow again."""
    for key, totals in seen.items():
        _are_totals(key, totals)
        assert sum(later < earlier for earlier, later in pairwise(totals)) <= 1, f"key {key} went back once: {totals}"
    assert any(totals != sorted(totals) for totals in seen.values()), "the reader has seen the jump"


def _are_totals(key: int, totals: list[Total]) -> None:
    assert set(totals) <= {total_of(key, files) for files in range(1, FILES + 1)}, f"key {key}"
