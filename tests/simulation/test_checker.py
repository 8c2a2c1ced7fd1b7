"""The checker proves itself: a good history passes, each planted bad one is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.world.checker import History, check
from tests.world.rows import Row


def good() -> History:
    """Two epochs of two records each; the accumulators go 1, 10, 100 and 1, 20, 200."""
    rows = [
        Row(0, 0, 1, 0, 1, 1, 10),
        Row(1, 0, 1, 1, 1, 1, 20),
        Row(2, 1, 2, 0, 2, 10, 100),
        Row(3, 1, 2, 1, 2, 20, 200),
    ]
    return History(
        wanted=frozenset({0, 1, 2, 3}),
        visible={"s": list(rows), "k": list(rows)},
        surviving=(100, 200),
        logged={0: (2, 0), 1: (4, 0)},
        finished=1,
        evidence={"s": 1, "k": 1},
    )


def both(history: History, change: Callable[[list[Row]], None]) -> None:
    for rows in history.visible.values():
        change(rows)


def replaced(index: int, **changes: int) -> Callable[[History], None]:
    return lambda history: both(history, lambda rows: rows.__setitem__(index, rows[index]._replace(**changes)))


BAD: dict[str, tuple[Callable[[History], None], str]] = {
    "lost": (lambda h: both(h, lambda rows: rows.pop(1) and None), "lost records [1]"),
    "repeated": (lambda h: both(h, lambda rows: rows.append(rows[3])), "repeated records [3]"),
    "out of order": (lambda h: both(h, lambda rows: rows.reverse()), "out of order"),
    "torn": (replaced(2, execution=7), "torn: rows of executions [2, 7]"),
    "beyond its input": (lambda h: h.logged.update({0: (1, 0)}), "record 1 in epoch 0, which ends before record 1"),
    "counted wrongly": (replaced(2, counted=3), "counted as number 3"),
    "another state before": (replaced(2, before=11), "epoch 1 was not computed with the state of epoch 0"),
    "no empty state": (replaced(0, before=2), "epoch 0 was not computed with the empty state"),
    "another state after": (replaced(2, after=101), "the state that survived"),
    "one sink has less": (lambda h: h.visible["s"].pop() and None, "s and k disagree"),
    "evidence behind": (lambda h: h.evidence.update({"s": 0}), "evidence of epoch 0, newest row of epoch 1"),
    "evidence missing": (lambda h: h.evidence.update({"s": None}), "evidence of epoch None"),
    "offsets back": (lambda h: h.logged.update({1: (1, 0)}), "epoch 1 goes back"),
    "watermark back": (lambda h: h.logged.update({0: (2, 5)}), "epoch 1 goes back"),
    "a hole": (lambda h: h.logged.update({3: (4, 0)}), "a hole between epochs 1 and 3"),
    "not finished": (lambda h: setattr(h, "finished", 0), "finished through epoch 0"),
    "left over": (lambda h: h.leftovers.append("open transaction"), "left over: open transaction"),
    "premature": (lambda h: h.premature.append("shown before"), "shown before"),
    "trouble": (lambda h: h.troubles.append("no end"), "no end"),
}


def test_a_good_history_passes() -> None:
    assert check(good()) == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_found(name: str) -> None:
    spoil, complaint = BAD[name]
    history = good()
    spoil(history)
    assert any(complaint in each for each in check(history)), check(history)
