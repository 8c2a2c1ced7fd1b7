"""What recovery changes in Spark's log, and what it says about a sink's evidence: both pure."""

from __future__ import annotations

import pytest

from tidegate.core.errors import Code
from tidegate.core.ledger import COMMITS, OFFSETS, Query
from tidegate.core.records import Decided, FinishedThrough, Position, SinkProgress
from tidegate.core.recover import AddDueEpoch, Found, PutAside, Restore, judge_position, plan_recovery
from tidegate.core.spark_log import with_watermark

QUERY = Query(job="job", job_id="j0", generation=1, uid="query", sources=("source",), sinks=("sink",))


def offsets(end: int, watermark: int = 0) -> bytes:
    return f'v1\n{{"batchWatermarkMs":{watermark},"conf":{{}}}}\n{end}'.encode()


def commits(watermark: int = 0) -> bytes:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()


def decided(epoch: int, end: int, *, watermark: int = 0) -> Decided:
    return Decided(epoch=epoch, run=1, prepared_digest="d", offsets=offsets(end), commits=commits(watermark))


def found(log_offsets: dict[int, bytes], log_commits: dict[int, bytes], *decisions: Decided) -> Found:
    newest = max((each.epoch for each in decisions), default=-1)
    by_epoch = {each.epoch: each for each in decisions}
    return Found(newest=newest, decided=by_epoch, log={OFFSETS: log_offsets, COMMITS: log_commits})


def test_a_log_that_says_what_was_decided_stays_as_it_is() -> None:
    assert plan_recovery(found({0: offsets(2), 1: offsets(4)}, {0: commits()}, decided(0, 2))) == []


def test_both_entries_of_a_decided_epoch_are_restored() -> None:
    plan = plan_recovery(found({0: b""}, {}, decided(0, 2)))
    assert plan == [Restore("spark/offsets/0", offsets(2)), Restore("spark/commits/0", commits())]


def test_entries_beyond_the_next_epoch_go_aside_from_the_newest_on() -> None:
    log = {0: offsets(2), 1: offsets(4), 2: offsets(6), 3: offsets(8)}
    plan = plan_recovery(found(log, {0: commits()}, decided(0, 2)))
    assert plan == [PutAside("spark/offsets/3", offsets(8)), PutAside("spark/offsets/2", offsets(6))]


@pytest.mark.parametrize("entry", [b"", b"v1", offsets(1), offsets(4) + b"\n4"])
def test_a_next_entry_that_is_torn_or_does_not_follow_goes_aside(entry: bytes) -> None:
    plan = plan_recovery(found({0: offsets(2), 1: entry}, {0: commits()}, decided(0, 2)))
    assert plan == [PutAside("spark/offsets/1", entry)]


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


def test_a_sink_without_evidence_is_fine_while_nothing_was_written() -> None:
    assert judge_position(QUERY, "sink", None, None, -1) is None
