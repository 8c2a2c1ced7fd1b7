"""The campaign's checker: each way of being wrong is seen, and judged by what the level promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.campaign.checker import InputRow, Kind, Outputs, Row, Sum, check
from tidegate.core.levels import Level

FILES = [
    [InputRow(0, "sea", 5), InputRow(1, "sand", 7)],
    [InputRow(2, "sea", 1), InputRow(3, "wind", 2)],
]
ROWS = [Row(row.number, row.word, row.value, row.number / 10) for file in FILES for row in file]
SUMS = [
    Sum("sea", 1, 5, 100, 100, 0.1),
    Sum("sand", 1, 7, 200, 200, 0.2),
    Sum("sea", 2, 6, 130, 30, 0.3),
    Sum("wind", 1, 2, 400, 400, 0.4),
]


def outputs() -> Outputs:
    return Outputs(rows={"table": list(ROWS), "files": list(ROWS)}, sums={"table": list(SUMS), "files": list(SUMS)})


def test_what_is_right_is_exact() -> None:
    assert check(FILES, outputs()).findings == ()


FLAWS: dict[str, tuple[Callable[[list[Row], list[Sum]], object], set[Kind]]] = {
    "a row is gone": (lambda rows, _: rows.pop(1), {Kind.LOST, Kind.TORN}),
    "a whole epoch is gone": (lambda rows, _: [rows.pop(0), rows.pop(0)], {Kind.LOST, Kind.TORN}),
    "a row is there twice": (lambda rows, _: rows.append(rows[2]), {Kind.REPEATED, Kind.TORN}),
    "a row nobody wrote": (lambda rows, _: rows.append(Row(9, "fog", 1, 0.5)), {Kind.INVENTED, Kind.TORN}),
    "another value": (lambda rows, _: rows.append(replace(rows.pop(), value=9)), {Kind.WRONG, Kind.TORN}),
    "another run's random value in one sink": (
        lambda rows, _: rows.append(replace(rows.pop(), lucky=0.9)),
        {Kind.TORN},
    ),
    "a count is gone": (lambda _, sums: sums.pop(3), {Kind.LOST, Kind.TORN}),
    "a sum that the input does not give": (
        lambda _, sums: sums.append(replace(sums.pop(), total=3)),
        {Kind.WRONG, Kind.TORN},
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_in_one_sink_is_seen(flaw: str) -> None:
    spoil, kinds = FLAWS[flaw]
    found = outputs()
    rows, sums = found.rows["files"], found.sums["files"]
    assert isinstance(rows, list)
    assert isinstance(sums, list)
    spoil(rows, sums)
    assert {finding.kind for finding in check(FILES, found).findings} == kinds


def test_rows_that_the_state_did_not_go_on_with_are_seen_although_all_sinks_agree() -> None:
    others = [replace(SUMS[0], chain=111, last=111), *SUMS[1:]]
    verdict = check(FILES, Outputs(rows={"table": ROWS}, sums={"table": others, "files": others}))
    assert {finding.kind for finding in verdict.broken} == {Kind.STATE}


def test_each_level_is_judged_by_its_own_promise() -> None:
    repeated = Outputs(rows={"table": [*ROWS, ROWS[0]]}, sums={"table": SUMS})
    lost = Outputs(rows={"table": ROWS[1:]}, sums={"table": SUMS})
    judged = {
        level: (bool(check(FILES, repeated, level).broken), bool(check(FILES, lost, level).broken)) for level in Level
    }
    assert judged == {
        Level.EXACTLY_ONCE: (True, True),
        Level.AT_LEAST_ONCE: (False, True),
        Level.AT_MOST_ONCE: (True, False),
    }
    verdict = check(FILES, repeated, Level.AT_LEAST_ONCE)
    assert (verdict.count(Kind.LOST), verdict.count(Kind.REPEATED)) == (0, 1)
