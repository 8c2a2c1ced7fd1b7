"""The checker of the file campaign sees each way of being wrong; its plan is seeded and has what was asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaign.checker import Kind
from tests.campaign.places import QUERIES, ROWS, SUMS
from tests.campaign_files.acts import ACTS, ALIVE, DOWN
from tests.campaign_files.checker import Outputs, Row, Sum, check, untrue
from tests.campaign_files.known import Known, Version, value_of
from tests.campaign_files.own_points import OWN_POINTS
from tests.campaign_files.schedule import Inside, kills_in, plan

ONE, TWO, LATER = Version("f00001.json", 0, 10), Version("a/f00002.json", 1, 20), Version("f00001.json", 2, 30)


def known(*versions: Version, changed: str = "ignore") -> Known:
    """What was read by both queries and is there."""
    found = Known(versions=list(versions), there={each.path: each for each in versions}, changed=changed)
    for query in QUERIES:
        found.listed[query] |= set(versions)
    return found


def outputs(*versions: Version) -> Outputs:
    """Each of the versions once, everywhere."""
    rows = [Row(each.path, number, value_of(number), number / 3) for each in versions for number in each.numbers]
    sums = [Sum(each.path, each.serial, len(each.numbers), sum(map(value_of, each.numbers))) for each in versions]
    return Outputs(rows, list(rows), sums)


def kinds(known: Known, found: Outputs) -> set[Kind]:
    return {each.kind for each in check(known, found)}


def test_what_is_right_has_no_finding():
    assert check(known(ONE, TWO), outputs(ONE, TWO)) == []
    assert check(known(ONE, LATER, changed="reread"), outputs(ONE, LATER)) == []


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lambda found: replace(found, table=found.table[8:], files=found.files[8:]), Kind.LOST),
        (lambda found: replace(found, sums=found.sums[1:]), Kind.LOST),
        (lambda found: replace(found, table=[*found.table, found.table[0]]), Kind.REPEATED),
        (lambda found: replace(found, sums=[*found.sums, found.sums[0]]), Kind.REPEATED),
        (lambda found: replace(found, sums=[replace(found.sums[0], seen=16), *found.sums[1:]]), Kind.REPEATED),
        (lambda found: replace(found, table=found.table[1:], files=found.files[1:]), Kind.TORN),
        (lambda found: replace(found, sums=[replace(found.sums[0], total=1), *found.sums[1:]]), Kind.TORN),
        (lambda found: replace(found, table=[replace(found.table[0], lucky=0.5), *found.table[1:]]), Kind.TORN),
        (lambda found: replace(found, table=[replace(found.table[0], value=-1), *found.table[1:]]), Kind.WRONG),
        (lambda found: replace(found, sums=[*found.sums, Sum("f00009.json", 9, 8, 1)]), Kind.INVENTED),
    ],
)
def test_each_way_of_being_wrong_is_seen(spoil: Callable[[Outputs], Outputs], kind: Kind):
    assert kind in kinds(known(ONE, TWO), spoil(outputs(ONE, TWO)))


def test_a_changed_file_that_was_read_again_is_a_repetition_unless_that_was_asked_for():
    both = known(ONE, LATER)
    both.listed = {query: {ONE} for query in QUERIES}
    assert kinds(both, outputs(ONE, LATER)) == {Kind.REPEATED}
    assert kinds(both, outputs(ONE)) == set()
    both.changed = "reread"
    assert kinds(both, outputs(ONE)) == {Kind.LOST}


def test_a_file_of_an_epoch_that_went_is_lost_unless_it_was_skipped():
    gone = known(ONE, TWO)
    del gone.there[TWO.path]
    assert kinds(gone, outputs(ONE)) == {Kind.LOST}
    gone.skipped = {ROWS: {TWO}, SUMS: {TWO}}
    assert kinds(gone, outputs(ONE)) == set()


def test_a_file_that_went_before_any_epoch_had_it_is_not_missed():
    gone = Known(versions=[ONE, TWO], there={ONE.path: ONE}, listed={query: {ONE} for query in QUERIES})
    assert check(gone, outputs(ONE)) == []


def test_a_refusal_is_true_where_the_file_was_really_touched(tmp_path: Path):
    (tmp_path / ONE.path).write_bytes(ONE.data)
    os.utime(tmp_path / ONE.path, ns=(ONE.mtime_ns, ONE.mtime_ns))
    held = known(ONE)

    def why(code: str = "TG-FILE-LOST", text: str = ONE.path, lost: str = "refuse") -> str | None:
        return untrue(code, text, {ONE}, held, tmp_path, lost)

    assert why() == "f00001.json is there as it was"
    assert why(code="TG-EPOCH-FAILED") == "it is none of a file source"
    assert why(text="some file") == "it names no file"
    assert why(text="f00007.json") == "no open epoch has f00007.json"
    (tmp_path / ONE.path).unlink()
    assert why() == "nobody but the job has touched f00001.json"
    del held.there[ONE.path]
    assert why() is None
    assert why(lost="skip") == "the program skips lost files"
    assert why(code="TG-FILE-CHANGED") == "f00001.json is gone"


def test_the_plan_is_seeded_and_has_everything():
    steps = plan(3, 50)
    assert steps == plan(3, 50) != plan(4, 50)
    assert kills_in(steps) == 50
    assert {step.strike.place for step in steps if isinstance(step.strike, Inside)} == set(OWN_POINTS)
    assert {act for step in steps for act in step.alive} == set(ALIVE)
    assert {act for step in steps for act in step.down} == set(DOWN)
    assert set(ACTS) <= {*ALIVE, *DOWN}
