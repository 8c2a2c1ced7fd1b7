"""What recovery changes in Spark's log, and what it says about a sink's evidence: both pure."""

from __future__ import annotations

import dataclasses

import pytest

from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.effects import Get, List
from tidegate.core.errors import Code
from tidegate.core.ledger import COMMITS, OFFSETS, Query
from tidegate.core.levels import Level
from tidegate.core.records import Decided, FinishedThrough, Position, SinkProgress
from tidegate.core.recover import _look_at_sources, judge_position
from tidegate.core.recovery_plan import AddDueEpoch, FoundLog, PutAside, RestoreEntry, plan_recovery
from tidegate.core.spark_log import with_watermark

QUERY = Query(job="job", job_id="j0", generation=1, uid="query", sources=("source",), sinks=("sink",))


def offsets(end: int, watermark: int = 0) -> bytes:
    return f'v1\n{{"batchWatermarkMs":{watermark},"conf":{{}}}}\n{end}'.encode()


def commits(watermark: int = 0) -> bytes:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()


def decided(epoch: int, end: int, *, watermark: int = 0) -> Decided:
    return Decided(epoch=epoch, run=1, prepared_digest="d", offsets=offsets(end), commits=commits(watermark))


def found(log_offsets: dict[int, bytes], log_commits: dict[int, bytes], *decisions: Decided) -> FoundLog:
    newest = max((each.epoch for each in decisions), default=-1)
    by_epoch = {each.epoch: each for each in decisions}
    return FoundLog(newest=newest, decided=by_epoch, log={OFFSETS: log_offsets, COMMITS: log_commits})


def test_a_log_that_says_what_was_decided_stays_as_it_is() -> None:
    assert plan_recovery(found({0: offsets(2), 1: offsets(4)}, {0: commits()}, decided(0, 2))) == []


def test_both_entries_of_a_decided_epoch_are_restored() -> None:
    plan = plan_recovery(found({0: b""}, {}, decided(0, 2)))
    assert plan == [RestoreEntry("spark/offsets/0", offsets(2)), RestoreEntry("spark/commits/0", commits())]


def test_entries_beyond_the_next_epoch_go_aside_from_the_newest_on() -> None:
    log = {0: offsets(2), 1: offsets(4), 2: offsets(6), 3: offsets(8)}
    plan = plan_recovery(found(log, {0: commits()}, decided(0, 2)))
    assert plan == [PutAside("spark/offsets/3", offsets(8)), PutAside("spark/offsets/2", offsets(6))]


@pytest.mark.parametrize("entry", [b"", b"v1", offsets(1), offsets(4) + b"\n4"])
def test_a_next_entry_that_is_torn_or_does_not_follow_goes_aside(entry: bytes) -> None:
    plan = plan_recovery(found({0: offsets(2), 1: entry}, {0: commits()}, decided(0, 2)))
    assert plan == [PutAside("spark/offsets/1", entry)]


def test_a_next_entry_with_a_watermark_that_the_decided_epoch_does_not_lead_to_goes_aside() -> None:
    """Of a run that computed the decided epoch with more input: its watermark would make the rest of it too late."""
    for watermark, plan in (
        (5, []),
        (6, [PutAside("spark/offsets/1", offsets(4, 6)), AddDueEpoch(1, with_watermark(offsets(2), 5), 5)]),
        (END_OF_TIME_MS, []),
    ):
        log = {0: offsets(2), 1: offsets(4, watermark)}
        assert plan_recovery(found(log, {0: commits(5)}, decided(0, 2, watermark=5))) == plan


def file_offsets(number: int) -> bytes:
    return f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{{"logOffset":{number}}}'.encode()


WHOLE = b'v1\n{"path":"a","timestamp":1,"batchId":1}'
DECIDED = Decided(epoch=0, run=1, prepared_digest="d", offsets=file_offsets(0), commits=commits())


def with_sources(following: bytes | None, entries: dict[str, bytes], *decisions: Decided) -> FoundLog:
    newest = len(decisions) - 1
    log = {number: each.offsets for number, each in enumerate(decisions)}
    if following is not None:
        log[newest + 1] = following
    kept = {number: each.commits for number, each in enumerate(decisions)}
    decided = dict(enumerate(decisions))
    return FoundLog(newest=newest, decided=decided, log={OFFSETS: log, COMMITS: kept}, sources={0: entries})


@pytest.mark.parametrize("torn", [b"", b"v1\n", b"v1", WHOLE[:-5]])
def test_a_torn_entry_of_a_file_source_goes_aside_behind_the_offsets_that_name_it(torn: bytes) -> None:
    plan = plan_recovery(with_sources(file_offsets(1), {"1": torn}, DECIDED))
    assert plan == [PutAside("spark/offsets/1", file_offsets(1)), PutAside("spark/sources/0/1", torn)]


def test_what_a_file_source_found_after_a_lost_entry_goes_aside_with_it() -> None:
    plan = plan_recovery(with_sources(None, {"2": WHOLE, "3.compact": WHOLE}, DECIDED))
    assert plan == [PutAside("spark/sources/0/2", WHOLE), PutAside("spark/sources/0/3.compact", WHOLE)]


def list_offsets(number: int, digest: str) -> bytes:
    return f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{{"logOffset":{number},"digest":"{digest}"}}'.encode()


LIST = b'v1\n{"tidegate":"file-list","format":1,"sha256":""}'
ONE, OTHER = "1" * 16, "2" * 16
DECIDED_LIST = Decided(epoch=0, run=1, prepared_digest="d", offsets=list_offsets(0, ONE), commits=commits())


def test_of_the_lists_of_one_number_only_the_one_counts_that_the_offsets_name() -> None:
    named, entries = list_offsets(1, ONE), {f"1-{OTHER}": b"", f"1-{ONE}": LIST, f"2-{OTHER}": LIST}
    assert plan_recovery(with_sources(named, entries, DECIDED_LIST)) == []
    assert plan_recovery(with_sources(None, entries, DECIDED_LIST)) == []


@pytest.mark.parametrize("entries", [{}, {f"1-{OTHER}": LIST}, {f"1-{ONE}": b"v1\n"}], ids=["no", "other", "torn"])
def test_offsets_that_name_a_lost_list_go_aside(entries: dict[str, bytes]) -> None:
    plan = plan_recovery(with_sources(list_offsets(1, ONE), entries, DECIDED_LIST))
    assert plan == [PutAside("spark/offsets/1", list_offsets(1, ONE))]


def test_offsets_that_name_a_lost_entry_of_a_file_source_go_aside() -> None:
    plan = plan_recovery(with_sources(file_offsets(1), {}, DECIDED))
    assert plan == [PutAside("spark/offsets/1", file_offsets(1))]


def test_offsets_that_do_not_need_the_torn_entry_stay() -> None:
    plan = plan_recovery(with_sources(file_offsets(0), {"1": b""}, DECIDED))
    assert plan == [PutAside("spark/sources/0/1", b"")]


@pytest.mark.parametrize("entry", [WHOLE, b"\0v1\n{}", b"v1\n1700000000000"])
def test_whole_entries_of_a_source_stay(entry: bytes) -> None:
    assert plan_recovery(with_sources(file_offsets(0), {"0": entry})) == []


def test_a_torn_first_entry_of_another_source_takes_its_undecided_offsets_with_it() -> None:
    plan = plan_recovery(with_sources(offsets(5), {"0": b""}))
    assert plan == [PutAside("spark/offsets/0", offsets(5)), PutAside("spark/sources/0/0", b"")]


def look_at_sources(sources: tuple[str, ...], positions: str, files: dict[str, bytes]) -> dict[int, dict[str, bytes]]:
    """What recovery finds in the sources' own logs behind a decided epoch that ended at `positions`."""
    query = dataclasses.replace(QUERY, sources=sources)
    before = Decided(
        epoch=1, run=1, prepared_digest="d", commits=commits(), offsets=f"{NO_POSITIONS}{positions}".encode()
    )
    steps = _look_at_sources(query, before, 1)
    result: object = None
    try:
        while True:
            effect = steps.send(result)
            if isinstance(effect, Get):
                result = files.get(effect.name)
            else:
                assert isinstance(effect, List)
                result = [name.rpartition("/")[2] for name in files if name.rpartition("/")[0] == effect.folder]
    except StopIteration as stop:
        return stop.value


NO_POSITIONS = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n'


def test_the_log_of_a_source_is_looked_at_behind_what_is_decided() -> None:
    files = {"spark/sources/0/3": b"old", "spark/sources/0/4": b"new", "spark/sources/1/0": b"first"}
    found = look_at_sources(("a", "b"), '{"logOffset":3}\n-', files)
    assert found == {0: {"4": b"new"}, 1: {"0": b"first"}}, "a source without a position has nothing decided"


def test_where_a_source_stands_twice_its_log_cannot_be_told_and_stays() -> None:
    """Spark numbers positions by the leaves of a plan and these logs by its sources: 1 is b's log and a's position."""
    files = {"spark/sources/0/4": b"", "spark/sources/1/39.compact": b"", "spark/sources/1/50": b""}
    assert look_at_sources(("a", "a", "b"), '{"logOffset":3}\n{"logOffset":3}\n{"logOffset":50}', files) == {}


def test_first_offsets_of_another_number_of_sources_go_aside() -> None:
    cut = FoundLog(newest=-1, decided={}, log={OFFSETS: {0: offsets(4)}, COMMITS: {}}, places=2)
    assert plan_recovery(cut) == [PutAside("spark/offsets/0", offsets(4))]


def test_an_undecided_commits_entry_goes_aside() -> None:
    assert plan_recovery(found({0: offsets(2)}, {0: b"v1"})) == [PutAside("spark/commits/0", b"v1")]


def test_a_due_epoch_is_added_unless_it_is_logged() -> None:
    newest = decided(0, 2, watermark=9)
    due = AddDueEpoch(1, with_watermark(offsets(2), 9), 9)
    assert plan_recovery(found({0: offsets(2)}, {0: commits(9)}, newest)) == [due]
    assert plan_recovery(found({0: offsets(2), 1: offsets(4, 9)}, {0: commits(9)}, newest)) == []
    assert plan_recovery(found({0: offsets(2), 1: b""}, {0: commits(9)}, newest))[-1] == due


FINISHED = FinishedThrough(epoch=5, sinks={"sink": SinkProgress(epoch=4, digest="d4")})


@pytest.mark.parametrize(
    ("position", "code"),
    [
        (("j0", 1, 4, "d4"), None),
        (("j0", 1, 6, "d6"), None),
        (("j0", 1, 7, "d7"), Code.SINK_AHEAD),
        (("j0", 2, 0, "d0"), Code.SINK_AHEAD),
        (("j0", 1, 3, "d3"), Code.SINK_BEHIND),
        (("j0", 0, 9, "d9"), Code.SINK_BEHIND),
        (("j0", 1, 4, "other"), Code.SECOND_TIMELINE),
        (("j1", 1, 4, "d4"), Code.SINK_OF_ANOTHER_JOB),
        (None, Code.SINK_BEHIND),
    ],
)
def test_the_evidence_of_a_sink_is_judged(position: tuple[str, int, int, str] | None, code: Code | None) -> None:
    at = None
    if position is not None:
        job_id, generation, epoch, digest = position
        at = Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest)
    error = judge_position(QUERY, "sink", at, FINISHED, 6)
    assert (None if error is None else error.catalogue_entry) is code


def test_evidence_that_goes_with_time_is_not_missed_and_still_counts_where_it_is() -> None:
    """A job that was paused for longer than a broker keeps offsets goes on."""
    expiring = dataclasses.replace(QUERY, expiring=frozenset({"sink"}))
    assert judge_position(expiring, "sink", None, FINISHED, 6) is None
    ahead = judge_position(expiring, "sink", Position(job_id="j0", generation=1, epoch=7, digest="d7"), FINISHED, 6)
    assert ahead is not None
    assert ahead.catalogue_entry is Code.SINK_AHEAD


NEXT = dataclasses.replace(QUERY, generation=2)
BEFORE = Position(job_id="j0", generation=1, epoch=4, digest="d4")


def test_a_query_that_a_restore_left_behind_does_not_begin_over_behind_its_visible_rows() -> None:
    error = judge_position(NEXT, "sink", BEFORE, None, -1)
    assert error is not None
    assert (error.catalogue_entry, error.found) == (
        Code.SINK_AHEAD,
        "epoch 4 of generation 1: all rows up to it would come again",
    )


@pytest.mark.parametrize(
    "query",
    [
        dataclasses.replace(NEXT, may_repeat=True),
        dataclasses.replace(NEXT, levels={"sink": Level.AT_MOST_ONCE}),
    ],
    ids=["rewind", "at-most-once"],
)
def test_a_generation_begins_over_where_that_is_wanted(query: Query) -> None:
    assert judge_position(query, "sink", BEFORE, None, -1) is None


@pytest.mark.parametrize(
    ("finished", "newest"), [(FinishedThrough(epoch=4), 4), (FinishedThrough(epoch=0), 0), (None, 0)]
)
def test_a_generation_that_has_gone_on_stands_behind_evidence_of_the_one_before(
    finished: FinishedThrough | None, newest: int
) -> None:
    assert judge_position(NEXT, "sink", BEFORE, finished, newest) is None


@pytest.mark.parametrize(
    ("position", "code"),
    [
        (("j0", 1, 4, "d4"), None),
        (("j0", 1, 6, "d6"), None),
        (("j0", 2, 5, "d5"), None),
        (("j0", 1, 3, "d3"), Code.SINK_BEHIND),
        (("j0", 0, 9, "d9"), Code.SINK_BEHIND),
        (("j0", 1, 4, "other"), Code.SECOND_TIMELINE),
        (None, Code.SINK_BEHIND),
    ],
)
def test_a_sink_that_lacks_what_its_savepoint_counts_is_noticed_before_its_generation_has_written(
    position: tuple[str, int, int, str] | None, code: Code | None
) -> None:
    finished = FinishedThrough(epoch=5, sinks={"sink": SinkProgress(epoch=4, digest="d4", generation=1)})
    at = None
    if position is not None:
        job_id, generation, epoch, digest = position
        at = Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest)
    error = judge_position(NEXT, "sink", at, finished, 6)
    assert (None if error is None else error.catalogue_entry) is code


def test_a_sink_without_evidence_is_fine_while_nothing_was_written() -> None:
    assert judge_position(QUERY, "sink", None, None, -1) is None
