"""What is said of a request whose driver has ended without an answer."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from tidegate.operate.beat import Beat, Incarnation, JobState, Post, QueryBeat, Wrong
from tidegate.operate.control import Kind, Outcome, Request
from tidegate.operate.settling import settle

NOW = 1_700_000_000.0
DRIVER = Incarnation(host="here", process=7, started_at=NOW)


@dataclass
class Case:
    kind: Kind
    state: JobState
    outcome: Outcome
    error: str = ""
    savepoint: str = ""


CASES = [
    Case(Kind.STOP, JobState.STOPPED, Outcome.DONE),
    Case(Kind.STOP, JobState.STOPPED, Outcome.PENDING, error="TG-SINK-UNAVAILABLE"),
    Case(Kind.STOP, JobState.STOPPED, Outcome.DONE, savepoint="/saved/one"),
    Case(Kind.STOP, JobState.STOPPED, Outcome.FAILED, error="TG-STORAGE-FULL"),
    Case(Kind.STOP, JobState.FINISHED, Outcome.DONE),
    Case(Kind.STOP, JobState.CANCELED, Outcome.NOT_RUNNING),
    Case(Kind.STOP, JobState.FAILED, Outcome.FAILED, error="TG-QUERY-FAILED"),
    Case(Kind.STOP, JobState.RUNNING, Outcome.FAILED),
    Case(Kind.DRAIN, JobState.STOPPED, Outcome.NOT_RUNNING),
    Case(Kind.DRAIN, JobState.STOPPED, Outcome.PENDING, error="TG-SINK-UNAVAILABLE"),
    Case(Kind.DRAIN, JobState.STOPPED, Outcome.FAILED, error="TG-STORAGE-FULL"),
    Case(Kind.DRAIN, JobState.RUNNING, Outcome.FAILED),
    Case(Kind.CANCEL, JobState.CANCELED, Outcome.DONE),
    Case(Kind.CANCEL, JobState.STOPPED, Outcome.NOT_RUNNING),
    Case(Kind.CANCEL, JobState.RUNNING, Outcome.FAILED),
    Case(Kind.CHECKPOINT, JobState.STOPPED, Outcome.DONE),
    Case(Kind.CHECKPOINT, JobState.STOPPED, Outcome.NOT_RUNNING, error="TG-SINK-UNAVAILABLE"),
    Case(Kind.CHECKPOINT, JobState.CANCELED, Outcome.NOT_RUNNING),
    Case(Kind.CHECKPOINT, JobState.RUNNING, Outcome.UNKNOWN),
    Case(Kind.SAVEPOINT, JobState.RUNNING, Outcome.UNKNOWN),
    Case(Kind.SAVEPOINT, JobState.STOPPED, Outcome.UNKNOWN),
    *(
        Case(kind, state, outcome, error=error, savepoint=savepoint)
        for kind in (Kind.STOP_WITH_SAVEPOINT, Kind.DRAIN_WITH_SAVEPOINT, Kind.CANCEL_WITH_SAVEPOINT)
        for state, outcome, error, savepoint in (
            (JobState.STOPPED, Outcome.DONE, "", "/saved/one"),
            (JobState.CANCELED, Outcome.DONE, "", "/saved/one"),
            (JobState.STOPPED, Outcome.FAILED, "TG-STORAGE-FULL", ""),
            (JobState.STOPPED, Outcome.PENDING, "TG-SINK-UNAVAILABLE", ""),
            (JobState.FAILED, Outcome.FAILED, "TG-QUERY-FAILED", ""),
            (JobState.FINISHED, Outcome.FAILED, "", ""),
            (JobState.RUNNING, Outcome.FAILED, "", ""),
        )
    ),
]


def beat(state: JobState, error: str = "") -> Beat:
    query = QueryBeat(uid="query", run=1, epoch=4, finished=4, rows=10, rows_per_second=0.0)
    return Beat(
        job="job",
        job_id="j",
        state=state,
        host="here",
        process=7,
        started_at=NOW,
        at=NOW,
        progress_at=NOW,
        queries=(query,),
        error=error,
        wrong=wrong_of(error),
    )


def wrong_of(error: str) -> Wrong:
    return {"": Wrong.NOTHING, "TG-SINK-UNAVAILABLE": Wrong.SINK}.get(error, Wrong.OTHER)


def request(kind: Kind) -> Request:
    return Request(id="one", kind=kind, to=DRIVER, asked_at=NOW, asked_by="a test")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind.value}-{case.state.value}-{case.outcome.name}")
def test_the_end_of_the_job_tells(case: Case):
    last = msgspec.structs.replace(beat(case.state, case.error), savepoint=case.savepoint)
    answer = settle(request(case.kind), last, NOW)
    assert (answer.savepoint or "") == case.savepoint
    assert answer.outcome is case.outcome
    assert answer.epochs == ({"query": 4} if case.outcome in (Outcome.DONE, Outcome.PENDING) else {})
    assert case.error in answer.detail or case.outcome is Outcome.NOT_RUNNING


def test_what_a_driver_of_an_older_release_has_met_is_told_but_not_taken_for_a_sink():
    last = msgspec.structs.replace(beat(JobState.STOPPED, "TG-SINK-UNAVAILABLE"), wrong=None)
    assert settle(request(Kind.STOP), last, NOW).outcome is Outcome.FAILED


@pytest.mark.parametrize("kind", list(Kind))
def test_where_another_driver_has_started_the_job_since_nobody_can_tell(kind: Kind):
    later = msgspec.structs.replace(beat(JobState.STOPPED), started_at=NOW + 60)
    assert settle(request(kind), later, NOW).outcome is Outcome.UNKNOWN
    assert settle(request(kind), None, NOW).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.STOPPED, JobState.CANCELED])
def test_a_job_that_has_ended_without_its_drain_is_no_success(state: JobState):
    answer = settle(request(Kind.DRAIN), beat(state), NOW)
    assert (answer.outcome, "was not drained" in answer.detail) == (Outcome.NOT_RUNNING, True)


def test_a_drain_is_done_when_the_jobs_folder_says_so_whoever_ended_it():
    for last in (beat(JobState.RUNNING), beat(JobState.STOPPED), None):
        assert settle(request(Kind.DRAIN), last, NOW, drained_at="2026-11-25T10:00:00+00:00").outcome is Outcome.DONE


@pytest.mark.parametrize("kind", [Kind.STOP, Kind.CANCEL])
def test_what_was_asked_of_a_supervisor_that_has_ended_came_too_late(kind: Kind):
    supervisor = Incarnation(host="here", process=7, started_at=NOW, post=Post.SUPERVISOR)
    answer = settle(msgspec.structs.replace(request(kind), to=supervisor), beat(JobState.STOPPED), NOW)
    assert (answer.outcome, "supervisor (process 7 on here)" in answer.detail) == (Outcome.TOO_LATE, True)
