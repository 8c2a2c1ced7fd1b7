"""Two fingerprints of a stateful operator are compared part by part."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tidegate.core.fingerprints import (
    NOTHING_ALLOWED,
    Allowed,
    Comparison,
    FingerprintPart,
    compare,
    compare_at_start,
    operator_name,
    pairs_at_start,
    unknown_operators,
    without_uid,
)
from tidegate.core.names import is_name
from tidegate.core.records import OperatorFingerprint, OperatorsAccepted

SUM = {"kind": "aggregation", "keys": "word", "aggregate functions": "sum(v)"}


def operator(number: int = 0, uid: str = "totals", parts: Mapping[str, str] = {}) -> OperatorFingerprint:
    return OperatorFingerprint(number=number, uid=uid, compared={**SUM, **parts})


COUNT = operator(parts={"aggregate functions": "count(v)"})


def started(
    before: tuple[OperatorFingerprint, ...] | None,
    now: tuple[OperatorFingerprint, ...],
    allowed: Allowed = NOTHING_ALLOWED,
    *,
    has_state: bool = True,
) -> Comparison:
    return compare_at_start("query", before, now, has_state=has_state, allowed=allowed, where="job j", at="now")


@pytest.mark.parametrize("part", [each for each in FingerprintPart if each.refused], ids=lambda each: each.label)
def test_a_difference_in_any_part_is_refused_with_both_sides(part: FingerprintPart):
    before, now = operator(parts={part.label: "one way"}), operator(parts={part.label: "another way"})
    (error,) = started((before,), (now,)).errors
    assert error.code == "TG-OPERATOR-CHANGED"
    assert f"{part.label}: one way" in error.expected
    assert f"{part.label}: another way" in error.found


@pytest.mark.parametrize("part", [each for each in FingerprintPart if not each.refused], ids=lambda each: each.label)
def test_what_may_be_a_mended_fault_is_accepted_said_and_noted(part: FingerprintPart):
    before, now = (
        OperatorFingerprint(number=0, uid="totals", compared={"kind": "limit"}, told={part.label: text})
        for text in ("one way", "another way")
    )
    found = started((before,), (now,))
    assert found.told == (f"query query: operator totals: {part.label}: one way -> another way",)
    assert found.record == OperatorsAccepted(fingerprints=(now,), at="now")
    assert started((now,), (now,)) == Comparison()


@pytest.mark.parametrize(
    ("names", "origins", "is_refused"),
    [
        (("v", "v"), ("v", "v * 2"), False),
        (("v", "amount"), ("v", "v"), False),
        (("v", "amount"), ("v", "amount"), True),
        (("v", "v"), ("value", "value"), False),
    ],
)
def test_a_column_is_the_same_by_its_name_or_by_its_origin(
    names: tuple[str, str], origins: tuple[str, str], is_refused: bool
):
    before, now = (
        OperatorFingerprint(
            number=0, uid="", compared={"keys": name}, origins={"keys": origin} if origin != name else {}
        )
        for name, origin in zip(names, origins, strict=True)
    )
    assert bool(started((before,), (now,)).errors) is is_refused


def test_an_operator_that_is_allowed_goes_on_and_what_was_accepted_is_noted():
    found = started((operator(),), (COUNT,), Allowed(("totals",), once="0a1b"))
    assert found.errors == ()
    assert found.told == ("query query: operator totals: aggregate functions: sum(v) -> count(v); accepted",)
    accepted = ("operator totals: aggregate functions: sum(v) -> count(v)",)
    assert found.record == OperatorsAccepted(fingerprints=(COUNT,), at="now", accepted=accepted, once="0a1b")
    assert started((COUNT,), (operator(),)).errors, "the way back is a difference again"


def test_one_that_is_allowed_does_not_allow_another():
    before = operator(), operator(1, "most")
    now = COUNT, operator(1, "most", parts={"aggregate functions": "max(v)"})
    (error,) = started(before, now, Allowed(("totals",))).errors
    assert "operator most" in error.expected


def test_another_kind_of_operator_is_never_accepted_and_the_kind_is_all_that_is_said():
    (error,) = started((operator(),), (operator(parts={"kind": "join", "keys": "other"}),), Allowed(("totals",))).errors
    assert (error.found, "--allow-changed-operator" in error.next_step) == ("kind: join", False)


def test_an_operator_without_a_uid_is_named_by_its_query_and_number():
    before, now = operator(uid=""), operator(uid="", parts={"keys": "other"})
    assert operator_name("query", now) == "query/0"
    assert started((before,), (now,)).errors
    assert not started((before,), (now,), Allowed(("query/0",))).errors


def test_operators_are_found_by_their_uids_and_the_others_by_their_place():
    first, second, third = operator(0, "a"), operator(1, ""), operator(2, "c")
    moved, kept, named = operator(1, "a"), operator(0, "c"), operator(2, "")
    pairs = pairs_at_start((first, second, third), (moved, kept, named))
    assert [(each and each.uid, now and now.uid) for each, now in pairs] == [
        ("a", "a"),
        ("c", "c"),
        ("", None),
        (None, ""),
    ]
    assert list(pairs_at_start((operator(0, ""),), (operator(0, "new"),))) == [(operator(0, ""), operator(0, "new"))]


@pytest.mark.parametrize(("before", "now"), [((operator(),), ()), ((), (operator(),))])
def test_an_operator_more_or_less_needs_a_restore(
    before: tuple[OperatorFingerprint, ...], now: tuple[OperatorFingerprint, ...]
):
    (error,) = started(before, now, Allowed(("totals",))).errors
    assert "tidegate run -s" in error.next_step


def test_a_checkpoint_without_fingerprints_takes_those_of_the_start_and_says_so():
    found = started(None, (operator(),))
    assert found.errors == ()
    assert "from this start on" in found.told[0]
    assert found.record == OperatorsAccepted(fingerprints=(operator(),), at="now")
    assert started(None, ()).told == (), "without operators there is nothing to say"


def test_before_the_first_epoch_is_decided_any_change_is_accepted():
    found = started((operator(),), (COUNT,), has_state=False)
    assert (found.errors, found.told) == ((), ())
    assert found.record == OperatorsAccepted(fingerprints=(COUNT,), at="now")


def test_a_part_that_only_one_release_knows_is_not_compared():
    assert started((operator(),), (operator(parts={"limit": "5"}),)).errors == ()


def test_a_name_that_no_operator_has_is_refused():
    (error,) = unknown_operators(Allowed(("totals", "total")), {"query": [operator()]}, "job j")
    assert (error.found, "totals" in error.expected) == ("total", True)


def test_the_line_that_gives_a_uid_has_a_free_name():
    operators = operator(0, ""), operator(1, "given"), operator(2, "")
    lines = list(without_uid("query", operators, {"query-aggregation"}))
    names = [line.partition('tidegate.uid("')[2].partition('"')[0] for line in lines]
    assert names == ["query-aggregation-2", "query-aggregation-3"]
    assert all(map(is_name, names))


def test_pairs_of_a_restore_are_those_that_the_match_gives():
    pairs = [(operator(3, "old"), operator(0, "new", {"keys": "other"}))]
    assert compare("query", pairs, Allowed(("new",)), "job j").errors == ()
    assert "operator new" in compare("query", pairs, NOTHING_ALLOWED, "job j").errors[0].expected
