"""The checker proves itself: a clean history passes, and every planted flaw is found, named and shown."""

from __future__ import annotations

from collections import Counter

import pytest

from tidegate.testing.checker import (
    Change,
    CheckerVerdict,
    Deviation,
    DeviationKind,
    InputLine,
    SinkContents,
    check,
    words_of,
)

BATCHES = [
    [InputLine(1, "a b a"), InputLine(2, "c")],
    [InputLine(3, "b b")],
    [InputLine(4, ""), InputLine(5, "a  d "), InputLine(6, "c a")],
]


class History:
    """What an exact job leaves behind, to be spoilt by a test."""

    def __init__(self) -> None:
        self.lines = [line for batch in BATCHES for line in batch]
        self.changes = [
            Change("a", 2),
            Change("b", 1),
            Change("c", 1),
            Change("b", 3),
            Change("a", 4),
            Change("c", 2),
            Change("d", 1),
        ]
        self.table = {"a": 4, "b": 3, "c": 2, "d": 1}

    def kinds(self) -> dict[tuple[DeviationKind, str], int]:
        found: Counter[tuple[DeviationKind, str]] = Counter()
        for finding in self.verdict().findings:
            found[finding.kind, finding.sink] += finding.times
        return dict(found)

    def verdict(self) -> CheckerVerdict:
        return check(BATCHES, BATCHES, SinkContents(self.lines, self.changes, self.table))


@pytest.fixture
def history() -> History:
    return History()


def test_a_clean_history_passes_in_any_order(history: History) -> None:
    history.lines.reverse()
    history.changes.sort()
    verdict = history.verdict()
    assert verdict.exact
    assert verdict.findings == ()
    assert verdict.counterexample() == ""


def test_the_words_of_two_batches_in_one_epoch_are_counted_once() -> None:
    counted = [[*BATCHES[0], *BATCHES[1]], BATCHES[2]]
    history = History()
    history.changes.remove(Change("b", 1))
    assert check(BATCHES, counted, SinkContents(history.lines, history.changes, history.table)).exact
    assert history.kinds()[DeviationKind.LOST, "changes"] == 1


def test_an_empty_input_with_empty_sinks_passes() -> None:
    assert check([], [], SinkContents([], [], {})).exact


def test_words() -> None:
    assert words_of("  a b\tc  d ") == ["a", "b\tc", "d"]


def test_a_lost_line(history: History) -> None:
    history.lines.remove(InputLine(2, "c"))
    assert history.kinds() == {(DeviationKind.LOST, "lines"): 1, (DeviationKind.TORN, "lines"): 1}


def test_a_lost_batch_of_lines_is_not_torn(history: History) -> None:
    history.lines = history.lines[:3]
    assert history.kinds() == {(DeviationKind.LOST, "lines"): 3}


def test_a_repeated_line(history: History) -> None:
    history.lines += [InputLine(1, "a b a")] * 2
    assert history.kinds() == {(DeviationKind.DUPLICATED, "lines"): 2, (DeviationKind.TORN, "lines"): 1}


def test_a_repeated_batch_of_lines_is_not_torn(history: History) -> None:
    history.lines += BATCHES[2]
    assert history.kinds() == {(DeviationKind.DUPLICATED, "lines"): 3}


def test_two_equal_texts_are_two_lines() -> None:
    batches = [[InputLine(1, "a"), InputLine(2, "a")]]
    verdict = check(batches, batches, SinkContents([InputLine(1, "a"), InputLine(1, "a")], [Change("a", 2)], {"a": 2}))
    assert (verdict.count(DeviationKind.LOST), verdict.count(DeviationKind.DUPLICATED)) == (1, 1)


@pytest.mark.parametrize("line", [InputLine(2, "C"), InputLine(77, "c"), InputLine(-1, "{half a rec")])
def test_a_line_that_the_input_does_not_have(history: History, line: InputLine) -> None:
    history.lines[1] = line
    kinds = history.kinds()
    assert kinds[DeviationKind.INVENTED, "lines"] == 1
    assert kinds[DeviationKind.LOST, "lines"] == 1


def test_a_lost_change(history: History) -> None:
    history.changes.remove(Change("b", 1))
    assert history.kinds() == {
        (DeviationKind.LOST, "changes"): 1,
        (DeviationKind.TORN, "changes"): 1,
        (DeviationKind.TORN, "changes and table"): 1,
    }


def test_a_batch_in_the_table_only(history: History) -> None:
    history.changes = history.changes[:4]
    assert history.kinds() == {(DeviationKind.LOST, "changes"): 3, (DeviationKind.TORN, "changes and table"): 1}


def test_a_batch_in_the_changes_only(history: History) -> None:
    history.table = {"a": 2, "b": 3, "c": 1}
    assert history.kinds() == {
        (DeviationKind.WRONG_COUNT, "table"): 2,
        (DeviationKind.LOST, "table"): 1,
        (DeviationKind.TORN, "changes and table"): 1,
    }


def test_half_a_batch_in_the_table(history: History) -> None:
    history.table["a"] = 2
    assert history.kinds() == {(DeviationKind.WRONG_COUNT, "table"): 1, (DeviationKind.TORN, "changes and table"): 1}


def test_a_repeated_batch_of_changes(history: History) -> None:
    history.changes += history.changes[4:]
    assert history.kinds() == {(DeviationKind.DUPLICATED, "changes"): 3}


def test_a_batch_counted_twice_by_the_state(history: History) -> None:
    history.changes = [Change("b", 5) if each == Change("b", 3) else each for each in history.changes]
    history.table["b"] = 5
    assert history.kinds() == {
        (DeviationKind.WRONG_COUNT, "changes"): 1,
        (DeviationKind.WRONG_COUNT, "table"): 1,
        (DeviationKind.TORN, "changes and table"): 1,
    }
    assert "batch 1: expected 'b' = 1, 3, found 1, 5" in history.verdict().counterexample()


def test_a_batch_that_the_state_forgot(history: History) -> None:
    """Batch 0 is gone from the state: every later count is too small."""
    history.changes = [Change("b", 2), Change("a", 2), Change("c", 1), Change("d", 1)]
    history.table = {"a": 2, "b": 2, "c": 1, "d": 1}
    verdict = history.verdict()
    assert verdict.count(DeviationKind.LOST) > 0
    assert verdict.count(DeviationKind.WRONG_COUNT) == 4


def test_a_change_too_many(history: History) -> None:
    history.changes.append(Change("b", 2))
    assert history.kinds() == {(DeviationKind.WRONG_COUNT, "changes"): 1}


def test_words_that_the_input_does_not_have(history: History) -> None:
    history.changes += [Change("x", 1), Change("x", 1)]
    history.table["x"] = 1
    assert history.kinds() == {(DeviationKind.INVENTED, "changes"): 2, (DeviationKind.INVENTED, "table"): 1}


def test_empty_sinks_have_lost_everything(history: History) -> None:
    history.lines, history.changes, history.table = [], [], {}
    assert history.kinds() == {
        (DeviationKind.LOST, "lines"): 6,
        (DeviationKind.LOST, "changes"): 7,
        (DeviationKind.LOST, "table"): 4,
    }


def test_the_counterexample_is_the_earliest_batch_and_short(history: History) -> None:
    history.lines = history.lines[:2] + history.lines[3:5]
    history.changes.append(Change("d", 1))
    assert history.verdict().counterexample() == str(
        Deviation(DeviationKind.LOST, "lines", 1, str(InputLine(3, "b b")), "nothing")
    )
