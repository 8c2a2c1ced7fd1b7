"""The verdict on a restore: a table of what a savepoint, a program and the sinks may say to each other."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from tests.support.saved_job import commits, offsets
from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.records import (
    DoneEpoch,
    JobRecord,
    Position,
    SavedQuery,
    SavepointFormat,
    SavepointRecord,
    SinkProgress,
    StatefulOperator,
)
from tidegate.savepoints.judgement import RestoreVerdict, judge
from tidegate.savepoints.restoring import Restore, Scope
from tidegate.savepoints.restoring_program import Program, ProgramQuery
from tidegate.savepoints.restoring_sinks import SinkSeen, judge_sink, later_names
from tidegate.savepoints.restoring_sources import places_of
from tidegate.settings.kinds import Backend

WROTE = SinkProgress(epoch=5, digest="right")
BEFORE = SinkProgress(epoch=9, digest="right", generation=1)
OPERATOR = StatefulOperator(number=0, name="stateStoreSave", stores=("default",), partitions=2)
DEDUPE = StatefulOperator(number=0, name="dedupe", stores=("default",), partitions=2)
LIMIT = StatefulOperator(number=1, name="globalLimit", stores=("default",), partitions=2)
CUSTOM = StatefulOperator(number=0, name="transformWithStateInPySparkExec", stores=("default",), partitions=2)


def saved(uid: str, **different: Any) -> SavedQuery:
    done = DoneEpoch(
        query=uid,
        generation=2,
        epoch=6,
        run=3,
        sources=(f"{uid}-in",),
        sinks=(f"{uid}-out",),
        offsets=offsets(6).encode(),
        commits=commits(6).encode(),
        progress={f"{uid}-out": WROTE},
    )
    given: dict[str, Any] = {
        "ends": {f"{uid}-in": '{"logOffset":6}'},
        "watermark_ms": 6000,
        "backend": "rocksdb",
        "partitions": 2,
        "operators": (OPERATOR,),
    }
    return SavedQuery(done=done, fingerprint="8a" * 32, **{**given, **different})


def reading(*sources: str) -> SavedQuery:
    """Query a, from these sources of files."""
    ends: dict[str, str | None] = dict.fromkeys(sources, '{"logOffset":6}')
    return changed(saved("a"), done=changed(saved("a").done, sources=sources), ends=ends)


def savepoint(*queries: SavedQuery) -> SavepointRecord:
    native = SavepointFormat.NATIVE
    return SavepointRecord(
        id="one", format=native, job="job", job_id="mine", generation=2, at="", queries=queries, files=()
    )


def query(uid: str, **different: Any) -> ProgramQuery:
    given: dict[str, Any] = {"sources": (f"{uid}-in",), "sinks": (f"{uid}-out",), "reads_files": (True,)}
    return ProgramQuery(uid, **{**given, **different})


def program(*queries: ProgramQuery, **different: Any) -> Program:
    given: dict[str, Any] = {"backend": Backend.ROCKSDB, "partitions": None}
    return Program(name="job", queries=queries, **{**given, **different})


SAVED = savepoint(saved("a"), saved("b"))
SAME = program(query("a"), query("b"))
RENAMED = {"a": "c", "a-in": "c-in", "a-out": "c-out"}

VERDICTS: dict[str, tuple[SavepointRecord, Program, Restore, RestoreVerdict, list[str]]] = {
    "as it was": (SAVED, SAME, Restore("p"), RestoreVerdict.OK, []),
    "queries in another order": (SAVED, program(query("b"), query("a")), Restore("p"), RestoreVerdict.OK, []),
    "the same number of partitions": (SAVED, replace(SAME, partitions=2), Restore("p"), RestoreVerdict.OK, []),
    "a query more": (
        SAVED,
        program(query("a"), query("b"), query("c")),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        ["query c begins again, with empty state: it is not in the savepoint"],
    ),
    "a query less": (SAVED, program(query("a")), Restore("p"), RestoreVerdict.IMPOSSIBLE, ["TG-RESTORE-UNMATCHED"]),
    "a query less, left behind": (
        SAVED,
        program(query("a")),
        Restore("p", allow_non_restored_state=True),
        RestoreVerdict.MIGRATE,
        ["query b and its state are left behind"],
    ),
    "no query that it knows": (
        SAVED,
        program(query("c")),
        Restore("p", allow_non_restored_state=True),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED"],
    ),
    "a query under another uid": (
        SAVED,
        program(query("b"), query("c")),
        Restore("p", renamed=RENAMED),
        RestoreVerdict.MIGRATE,
        ["query a resumes as c"],
    ),
    "an old uid that is none": (
        SAVED,
        SAME,
        Restore("p", renamed={"x": "a"}),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED"],
    ),
    "a new uid that is none": (
        SAVED,
        SAME,
        Restore("p", renamed={"a-out": "x"}),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED"],
    ),
    "two queries as one": (
        SAVED,
        program(query("b", sources=("b-in",))),
        Restore("p", renamed={"a": "b"}),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED"],
    ),
    "a source that takes the name of another one": (
        savepoint(reading("lines", "more")),
        program(query("a", sources=("more",), reads_files=(True,))),
        Restore("p", renamed={"lines": "more"}),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED"],
    ),
    "a sink that takes the name of another one": (
        savepoint(changed(saved("a"), done=changed(saved("a").done, sinks=("one", "two")))),
        program(query("a", sinks=("two",))),
        Restore("p", renamed={"one": "two"}),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED"],
    ),
    "two sources that change their names": (
        savepoint(reading("lines", "more")),
        program(query("a", sources=("lines", "more"), reads_files=(True, True))),
        Restore("p", renamed={"lines": "more", "more": "lines"}),
        RestoreVerdict.OK,
        [],
    ),
    "another source": (
        SAVED,
        program(query("a", sources=("other",)), query("b")),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-SOURCES-CHANGED"],
    ),
    "a source that is given up": (
        SAVED,
        program(query("a", sources=("other",), reads_files=(False,)), query("b")),
        Restore("p", allow_non_restored_of=("a",)),
        RestoreVerdict.MIGRATE,
        ["query a: source a-in is no longer read", "query a: source other is new, and begins where the program says"],
    ),
    "a source given up in another query than it is allowed for": (
        SAVED,
        program(query("a", sources=("other",)), query("b")),
        Restore("p", allow_non_restored_of=("b",)),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-SOURCES-CHANGED"],
    ),
    "a source more, before the old one": (
        SAVED,
        program(query("a", sources=("new", "a-in"), reads_files=(False, True)), query("b")),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        ["query a: source new is new, and begins where the program says"],
    ),
    "state only, whatever the sources are": (
        SAVED,
        program(query("a", sources=("other",), reads_files=(False,)), query("b")),
        Restore("p", scope=Scope.STATE_ONLY),
        RestoreVerdict.MIGRATE,
        [
            f"query {uid}: its sources begin where the program says, whatever its state has of their rows"
            for uid in "ab"
        ],
    ),
    "a query less, left behind by its uid": (
        SAVED,
        program(query("a")),
        Restore("p", allow_non_restored_of=("b",)),
        RestoreVerdict.MIGRATE,
        ["query b and its state are left behind"],
    ),
    "a query less, where another one may be left": (
        SAVED,
        program(query("a")),
        Restore("p", allow_non_restored_of=("a",)),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED"],
    ),
    "a query to leave behind that is none": (
        SAVED,
        SAME,
        Restore("p", allow_non_restored_of=("x",)),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED"],
    ),
    "a source that is read twice": (
        savepoint(changed(saved("a"), done=changed(saved("a").done, sources=("a-in", "a-in")))),
        program(query("a", sources=("a-in", "a-in"), reads_files=(True, True))),
        Restore("p"),
        RestoreVerdict.OK,
        [],
    ),
    "files that were read behind a source that is read twice, now before it": (
        savepoint(reading("a-in", "a-in", "b")),
        program(query("a", sources=("b", "a-in", "a-in"), reads_files=(True, True, True))),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-SOURCES-CHANGED"] * 2,
    ),
    "files behind a source that was read twice, and is read once": (
        savepoint(reading("a-in", "a-in", "b")),
        program(query("a", sources=("a-in", "b"), reads_files=(True, True))),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-SOURCES-CHANGED"],
    ),
    "a source more, behind one that is read twice": (
        savepoint(reading("a-in", "a-in")),
        program(query("a", sources=("a-in", "a-in", "new"), reads_files=(True, True, True))),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        ["query a: source new is new, and begins where the program says"],
    ),
    "a source that is read twice now": (
        savepoint(reading("a-in")),
        program(query("a", sources=("a-in", "a-in"), reads_files=(True, True))),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-SOURCES-CHANGED"],
    ),
    "an operator with a uid, under another number, and one before it": (
        savepoint(saved("a", operators=(changed(OPERATOR, uid="sums"),))),
        program(query("a", operators=(DEDUPE, changed(OPERATOR, number=1, uid="sums")))),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        ["query a: operator 0 (dedupe) is new, and begins with empty state"],
    ),
    "an operator with another uid": (
        savepoint(saved("a", operators=(changed(OPERATOR, uid="sums"),))),
        program(query("a", operators=(changed(OPERATOR, uid="totals"),))),
        Restore("p", renamed={"sums": "totals"}),
        RestoreVerdict.MIGRATE,
        ["query a: operator sums resumes as totals"],
    ),
    "an operator less": (
        savepoint(saved("a", operators=(changed(OPERATOR, uid="sums"), changed(DEDUPE, number=1, uid="once")))),
        program(query("a", operators=(changed(OPERATOR, uid="sums"),))),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED"],
    ),
    "an operator less, left behind": (
        savepoint(saved("a", operators=(changed(OPERATOR, uid="sums"), changed(DEDUPE, number=1, uid="once")))),
        program(query("a", operators=(changed(OPERATOR, uid="sums"),))),
        Restore("p", allow_non_restored_of=("a",)),
        RestoreVerdict.MIGRATE,
        ["query a: the state of operator once (dedupe) is left behind"],
    ),
    "a query without state that has some now": (
        savepoint(saved("a", operators=())),
        program(query("a", operators=(OPERATOR,))),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        ["query a has stateful operators now, and they begin with empty state"],
    ),
    "another kind of source": (
        SAVED,
        program(query("a", reads_files=(False,)), query("b")),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-SOURCES-CHANGED"],
    ),
    "other sinks": (
        SAVED,
        program(query("a", sinks=("new",)), query("b")),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        [
            "query a: sink a-out gets no more rows",
            "query a: sink new is new, and gets rows from epoch 7 on",
        ],
    ),
    "a sink more, behind empty state": (
        savepoint(saved("a", operators=())),
        program(query("a", sinks=("a-out", "new"))),
        Restore("p", scope=Scope.OFFSETS_ONLY),
        RestoreVerdict.MIGRATE,
        ["query a counts its epochs from 1 again", "query a: sink new is new, and gets rows from epoch 1 on"],
    ),
    "another backend": (
        savepoint(saved("a")),
        program(query("a"), backend=Backend.HASHMAP),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        ["query a: its state moves from rocksdb to hashmap, row by row"],
    ),
    "another number of partitions": (
        savepoint(saved("a")),
        program(query("a"), partitions=4),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        ["query a: its state is divided into 4 partitions instead of 2, row by row"],
    ),
    "another backend and another number of partitions": (
        savepoint(saved("a", backend="hashmap")),
        program(query("a"), partitions=1),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        [
            "query a: its state moves from hashmap to rocksdb, row by row",
            "query a: its state is divided into 1 partitions instead of 2, row by row",
        ],
    ),
    "another backend of no state": (
        savepoint(saved("a", operators=())),
        program(query("a"), backend=Backend.HASHMAP),
        Restore("p"),
        RestoreVerdict.OK,
        [],
    ),
    "a limit in other partitions": (
        savepoint(saved("a", operators=(OPERATOR, LIMIT))),
        program(query("a"), partitions=4),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-PARTITIONS"],
    ),
    "a limit in another backend": (
        savepoint(saved("a", operators=(LIMIT,))),
        program(query("a"), backend=Backend.HASHMAP, partitions=4),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-STATE-FORMAT"],
    ),
    "a limit as it was": (
        savepoint(saved("a", operators=(LIMIT,))),
        program(query("a"), partitions=2),
        Restore("p"),
        RestoreVerdict.OK,
        [],
    ),
    "custom state in other partitions": (
        savepoint(saved("a", operators=(CUSTOM,))),
        program(query("a"), partitions=4),
        Restore("p"),
        RestoreVerdict.MIGRATE,
        ["query a: its state is divided into 4 partitions instead of 2, row by row"],
    ),
    "custom state in hashmap": (
        savepoint(saved("a", operators=(CUSTOM,))),
        program(query("a"), backend=Backend.HASHMAP),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-STATE-FORMAT"],
    ),
    "a backend that nobody knows": (
        savepoint(saved("a", backend="com.example.Store")),
        program(query("a"), partitions=4),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-STATE-FORMAT", "TG-RESTORE-PARTITIONS"],
    ),
    "another number of partitions of no state": (
        savepoint(saved("a", operators=())),
        program(query("a"), partitions=4),
        Restore("p"),
        RestoreVerdict.OK,
        [],
    ),
    "drained": (
        savepoint(saved("a", watermark_ms=END_OF_TIME_MS)),
        program(query("a")),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-JOB-DRAINED"],
    ),
    "several things at once": (
        savepoint(saved("a", operators=(CUSTOM,)), saved("b")),
        program(query("a", sources=("other",)), backend=Backend.HASHMAP),
        Restore("p"),
        RestoreVerdict.IMPOSSIBLE,
        ["TG-RESTORE-UNMATCHED", "TG-SOURCES-CHANGED", "TG-STATE-FORMAT"],
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_the_verdict_and_why(case: str):
    record, declared, wish, verdict, why = VERDICTS[case]
    found = judge(record, declared, wish)
    assert (found.verdict, [error.code for error in found.errors] or list(found.changes)) == (verdict, why)


def test_what_goes_on_under_no_uid_or_another_one_is_left_behind_by_its_old_one():
    found = judge(SAVED, program(query("c")), Restore("p", renamed=RENAMED, allow_non_restored_state=True))
    assert found.left_behind == ("a", "b")
    assert {uid: each.done.query for uid, each in found.matched.items()} == {"c": "a"}


@pytest.mark.parametrize(("renamed", "helps"), [({"a": "x"}, "--map a=NEW"), ({"x": "a"}, "savepoint inspect")])
def test_of_a_wrong_map_the_side_is_named_that_is_unknown(renamed: dict[str, str], helps: str):
    error = judge(SAVED, program(query("a"), query("b")), Restore("p", renamed=renamed)).errors[0]
    assert (error.found, helps in error.next_step) == ("x", True)


@pytest.mark.parametrize(
    ("record", "declared", "wish", "option"),
    [
        (SAVED, program(query("a"), query("sums")), Restore("p"), "--map b=sums"),
        (SAVED, program(query("a"), query("c"), query("d")), Restore("p"), "--map OLD=NEW"),
        (SAVED, program(query("c")), Restore("p"), "--map OLD=NEW"),
        (SAVED, program(query("a")), Restore("p"), "--map OLD=NEW"),
        (SAVED, program(query("a", sources=("rows",)), query("b")), Restore("p"), "--map a-in=rows"),
        (
            SAVED,
            program(query("a", sources=("rows", "more"), reads_files=(True, True)), query("b")),
            Restore("p"),
            "--map OLD=NEW",
        ),
        (
            savepoint(reading("x", "x")),
            program(query("a", sources=("y", "y"), reads_files=(True, True))),
            Restore("p"),
            "--map x=y",
        ),
        (
            savepoint(reading("x", "z")),
            program(query("a", sources=("w", "y"), reads_files=(True, True))),
            Restore("p", renamed={"x": "w"}),
            "--map z=y",
        ),
    ],
)
def test_where_only_one_name_can_be_meant_the_refusal_has_the_whole_option(
    record: SavepointRecord, declared: Program, wish: Restore, option: str
):
    (error,) = judge(record, declared, wish).errors
    assert re.findall(r"--map [\w-]+=[\w-]+", error.next_step) == [option]


@pytest.mark.parametrize(
    ("query_saved", "wanted", "options"),
    [
        (saved("a", operators=(LIMIT,)), {"partitions": 4}, "-D state.backend=rocksdb -D parallelism=2"),
        (saved("a", operators=(LIMIT,)), {"backend": Backend.HASHMAP}, "-D state.backend=rocksdb -D parallelism=2"),
        (saved("a", operators=(CUSTOM,)), {"backend": Backend.HASHMAP}, "-D state.backend=rocksdb"),
        (saved("a", backend=None), {"partitions": 4}, "-D parallelism=2"),
        (saved("a", partitions=None), {"partitions": 4}, ""),
    ],
)
def test_a_form_that_state_cannot_take_is_refused_with_the_options_that_leave_it_as_it_is(
    query_saved: SavedQuery, wanted: dict[str, Any], options: str
):
    (error,) = judge(savepoint(query_saved), program(query("a"), **wanted), Restore("p")).errors
    assert " ".join(re.findall(r"-D [\w.]+=\w+", error.next_step)) == options


# --- the sinks ---------------------------------------------------------------------------------------------

SAME_JOB = JobRecord(name="job", job_id="mine", generation=3)
OTHER_FOLDER = JobRecord(name="job", job_id="new", generation=1)
OTHER_NAME = JobRecord(name="copy", job_id="new", generation=1)
QUERY = saved("a")


def at(epoch: int, generation: int = 2, *, job_id: str = "mine", digest: str = "right") -> Position:
    return Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest)


def sink(**different: Any) -> SinkSeen:
    given: dict[str, Any] = {
        "saved": QUERY,
        "progress": WROTE,
        "under_saved": at(5),
        "under_new": None,
        "same_names": True,
        "expires": False,
    }
    return SinkSeen(query="a", sink="a-out", **{**given, **different})


SINKS: dict[str, tuple[JobRecord, SinkSeen, str | None]] = {
    "as it was": (SAME_JOB, sink(), None),
    "nothing of this generation yet": (SAME_JOB, sink(progress=None, under_saved=at(9, 1)), None),
    "one epoch further": (SAME_JOB, sink(under_saved=at(7)), "TG-SINK-AHEAD"),
    "a later generation": (SAME_JOB, sink(under_saved=at(0, 3)), "TG-SINK-AHEAD"),
    "further, where it had not written": (SAME_JOB, sink(progress=None, under_saved=at(7)), "TG-SINK-AHEAD"),
    "not as far": (SAME_JOB, sink(under_saved=at(4)), "TG-SINK-BEHIND"),
    "empty": (SAME_JOB, sink(under_saved=None), "TG-SINK-BEHIND"),
    "empty, and evidence goes with time": (SAME_JOB, sink(under_saved=None, expires=True), None),
    "other rows": (SAME_JOB, sink(under_saved=at(5, digest="other")), "TG-SECOND-TIMELINE"),
    "behind, of the generation before": (SAME_JOB, sink(progress=BEFORE, under_saved=at(8, 1)), "TG-SINK-BEHIND"),
    "as it was, of the generation before": (SAME_JOB, sink(progress=BEFORE, under_saved=at(9, 1)), None),
    "other rows, of the generation before": (
        SAME_JOB,
        sink(progress=BEFORE, under_saved=at(9, 1, digest="other")),
        "TG-SECOND-TIMELINE",
    ),
    "of another job": (SAME_JOB, sink(under_saved=at(5, job_id="other")), "TG-SINK-OF-ANOTHER-JOB"),
    "of a copy in the same folder": (
        JobRecord(name="job", job_id="copy", generation=2),
        sink(under_saved=at(5, job_id="copy")),
        "TG-SINK-AHEAD",
    ),
    "in another folder, where the job itself wrote": (OTHER_FOLDER, sink(), "TG-SINK-OF-ANOTHER-JOB"),
    "in another folder, claimed": (SAME_JOB, sink(), None),
    "in another folder, empty": (OTHER_FOLDER, sink(under_saved=None), None),
    "under another name": (OTHER_NAME, sink(same_names=False), None),
    "under another name, empty": (OTHER_NAME, sink(same_names=False, under_saved=None), None),
    "under another name, the first is further": (
        OTHER_NAME,
        sink(same_names=False, under_saved=at(7)),
        "TG-SINK-AHEAD",
    ),
    "under another name, used before": (
        OTHER_NAME,
        sink(same_names=False, under_new=at(0, 1, job_id="old")),
        "TG-SINK-OF-ANOTHER-JOB",
    ),
    "further under a name since": (SAME_JOB, sink(under_later=(at(0, 3),)), "TG-SINK-AHEAD"),
    "before, under a name since": (SAME_JOB, sink(under_later=(at(9, 2),)), None),
    "another job under a name since": (SAME_JOB, sink(under_later=(at(0, 3, job_id="other"),)), None),
    "a new query": (SAME_JOB, sink(saved=None, progress=None, under_saved=None, same_names=False), None),
    "a new query that has written before": (
        SAME_JOB,
        sink(saved=None, progress=None, under_saved=None, same_names=False, under_new=at(0)),
        "TG-SINK-AHEAD",
    ),
}


@pytest.mark.parametrize("case", SINKS)
def test_what_a_sink_says_to_it(case: str):
    target, seen, code = SINKS[case]
    error = judge_sink(changed(SAVED, queries=(QUERY,)), target, seen)
    assert (None if error is None else error.code) == code


def test_a_sink_is_looked_for_under_every_name_that_it_can_have_had_since():
    assert later_names("q", "s", []) == set()
    once_more = later_names("q", "s", [{"s": "t"}, {"q": "r"}])
    assert once_more == {("q", "t"), ("r", "s"), ("r", "t")}
    assert later_names("a", "s", [{"a": "b", "b": "a"}]) == {("b", "s")}


def test_a_sink_that_is_ahead_says_what_would_come_again():
    error = judge_sink(SAVED, SAME_JOB, sink(under_saved=at(9)))
    assert error is not None
    assert error.found == "epoch 9 of generation 2 is visible: rows of epochs 7 to 9 would come again"


@pytest.mark.parametrize(
    ("before", "now", "places"),
    [
        (("a", "b"), ("a", "b"), (0, 1)),
        (("a", "b"), ("b", "a"), (1, 0)),
        (("a", "b"), ("c", "b"), (None, 1)),
        (("a", "a"), ("a", "a"), (0, 1)),
        (("a",), ("a", "a"), (0, None)),
    ],
)
def test_each_source_goes_on_where_it_was(
    before: tuple[str, ...], now: tuple[str, ...], places: tuple[int | None, ...]
):
    whole = changed(saved("q"), done=changed(saved("q").done, sources=before))
    assert places_of(now, whole, Restore("p")) == places
    assert places_of(now, whole, Restore("p", scope=Scope.STATE_ONLY)) == (None,) * len(now)
