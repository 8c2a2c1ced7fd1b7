"""Which operator of a program goes on with which state: by uid, else by kind and order, else nobody guesses."""

from __future__ import annotations

import pytest

from tidegate.core.records import StatefulOperator
from tidegate.savepoints.operator_match import OperatorMatch, match_operators, numbered_otherwise, operators_refused

AGGREGATE, DEDUPE = "stateStoreSave", "dedupe"


def operators(*kinds_and_uids: str) -> list[StatefulOperator]:
    """`kind uid` or `kind`, by their number."""
    return [
        StatefulOperator(number=number, name=kind, stores=("default",), partitions=2, uid=uid)
        for number, (kind, _, uid) in enumerate(each.partition(" ") for each in kinds_and_uids)
    ]


def matched(saved: list[StatefulOperator], program: list[StatefulOperator], **renamed: str) -> OperatorMatch:
    return match_operators(saved, program, renamed)


def codes(match: OperatorMatch, *, may_leave: bool = False) -> list[str]:
    return [error.code for error in operators_refused(match, may_leave=may_leave, where="query")]


def test_a_uid_is_found_under_any_number():
    program = operators(f"{AGGREGATE} most", f"{DEDUPE} once", f"{AGGREGATE} sums")
    found = matched(operators(f"{AGGREGATE} sums", f"{DEDUPE} once"), program)
    assert (found.places, [each.uid for each in found.new], found.left) == ({0: 2, 1: 1}, ["most"], ())
    assert (found.moves_files, found.changes_nothing, codes(found)) == (True, False, [])


def test_operators_that_change_places_are_moved_though_kinds_and_numbers_stay():
    found = matched(operators(f"{DEDUPE} a", f"{DEDUPE} b"), operators(f"{DEDUPE} b", f"{DEDUPE} a"))
    assert (found.places, found.moves_files) == ({0: 1, 1: 0}, True)


def test_a_uid_that_is_gone_is_left_behind_where_somebody_allows_it_or_says_what_it_is_called_now():
    saved, program = operators(f"{AGGREGATE} sums"), operators(f"{AGGREGATE} totals")
    found = matched(saved, program)
    assert [[each.uid for each in part] for part in (found.left, found.new)] == [["sums"], ["totals"]]
    (error,) = operators_refused(found, may_leave=False, where="query")
    assert (error.code, "--map sums=totals" in error.next_step) == ("TG-RESTORE-UNMATCHED", True)
    assert codes(found, may_leave=True) == []
    assert matched(saved, program, sums="totals").places == {0: 0}


@pytest.mark.parametrize(
    ("saved", "program", "places"),
    [
        ([AGGREGATE, DEDUPE], [AGGREGATE, DEDUPE], {0: 0, 1: 1}),
        ([AGGREGATE, DEDUPE], [f"{AGGREGATE} sums", f"{DEDUPE} once"], {0: 0, 1: 1}),  # they have been given uids since
        ([AGGREGATE], [DEDUPE, AGGREGATE], {0: 1}),
        ([f"{AGGREGATE} sums", DEDUPE], [DEDUPE, f"{AGGREGATE} sums"], {0: 1, 1: 0}),
        ([AGGREGATE, AGGREGATE], [AGGREGATE, DEDUPE, AGGREGATE], {0: 0, 1: 2}),
    ],
)
def test_without_a_uid_kind_and_order_decide_where_they_leave_one_way(
    saved: list[str], program: list[str], places: dict[int, int]
):
    found = matched(operators(*saved), operators(*program))
    assert (found.places, found.unclear, codes(found)) == (places, (), [])


@pytest.mark.parametrize(
    ("saved", "program"),
    [
        ([AGGREGATE], [AGGREGATE, AGGREGATE]),
        ([AGGREGATE], [AGGREGATE, f"{AGGREGATE} sums"]),
        ([AGGREGATE], [DEDUPE]),
        ([AGGREGATE, DEDUPE], [DEDUPE, AGGREGATE]),
        ([AGGREGATE, AGGREGATE], [AGGREGATE]),
    ],
)
def test_nobody_guesses(saved: list[str], program: list[str]):
    found = matched(operators(*saved), operators(*program))
    assert (len(found.unclear), codes(found, may_leave=True)) == (len(saved), ["TG-RESTORE-OPERATORS"])


def test_state_of_one_kind_is_not_given_to_another_one_of_its_uid():
    assert codes(matched(operators(f"{AGGREGATE} one"), operators(f"{DEDUPE} one"))) == ["TG-RESTORE-OPERATORS"]


@pytest.mark.parametrize("kind", ["transformWithStateInPySparkExec", "globalLimit"])
def test_custom_state_and_limits_do_not_begin_beside_state_that_goes_on(kind: str):
    found = matched(operators(f"{AGGREGATE} sums"), operators(f"{AGGREGATE} sums", f"{kind} new"))
    assert codes(found) == ["TG-RESTORE-OPERATORS"]


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [
        ({"0": "a", "1": "b"}, {"0": "a", "1": "b"}, False),
        ({"0": "a", "1": "b"}, {"0": "b", "1": "a"}, True),
        ({"0": "a"}, {"0": "new", "1": "a"}, True),
        ({"0": "a"}, {"0": "renamed"}, True),
        ({"1": "a"}, {"0": "a"}, True),
        ({}, {"0": "a"}, False),
        ({"0": "a"}, {}, False),
        ({"0": "a"}, {"0": "a", "1": "b"}, False),
    ],
)
def test_a_plain_start_gives_no_state_to_another_operator(before: dict[str, str], now: dict[str, str], refused: bool):
    error = numbered_otherwise(before, now, "query")
    assert (error is not None) == refused
    assert error is None or (error.code, "-s" in error.next_step) == ("TG-RESTORE-OPERATORS", True)


def test_what_stays_as_it_was_changes_nothing_and_a_new_name_moves_no_file():
    same = operators(f"{AGGREGATE} sums", DEDUPE)
    assert matched(same, same).changes_nothing
    named = matched(same, operators(f"{AGGREGATE} sums", f"{DEDUPE} once"))
    assert (named.changes_nothing, named.moves_files) == (False, False)
