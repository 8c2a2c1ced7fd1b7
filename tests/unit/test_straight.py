"""Sinks below exactly-once: what is shown inside the epoch, tried again, or given up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from tidegate.core import happenings as hp
from tidegate.core.effects import CommitSink, CommitStraight, Effect, Hesitate, LookForEvidence, Tell
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome
from tidegate.core.straight import show_straight


def query(**levels: Level) -> Query:
    return Query(job="job", job_id="j0", generation=1, uid="query", sources=("s",), sinks=("a", "b"), levels=levels)


def committable(sink: str, task: int, rows: int = 10) -> Committable:
    identity = query().sink(sink)
    attempt = Attempt(sink=identity, run=1, run_token="t", epoch=3, task=task, task_attempt=0)
    return Committable(attempt=attempt, rows=rows, digest=f"{sink}{task}")


def show(of: Query, committables: Sequence[Committable], *answers: Sequence[Outcome]) -> tuple[list[Effect], Any]:
    """The effects until the end, with `answers` to the commits in their order; and what was returned."""
    steps = show_straight(of, 3, tuple(committables))
    waiting = [list(outcomes) for outcomes in answers]
    effects: list[Effect] = []
    result: object = None
    try:
        while True:
            effect = steps.send(result)
            effects.append(effect)
            commits = isinstance(effect, CommitSink | CommitStraight)
            result = (
                [Answer(outcome=each, detail=each.value) for each in waiting.pop(0)] if commits else Evidence.ABSENT
            )
    except StopIteration as stop:
        assert not waiting
        return effects, stop.value


COMMITTED, ALREADY, RETRY, LOST, UNKNOWN = Outcome


def test_exactly_once_sinks_wait_for_the_decision() -> None:
    mine = [committable("b", 0), committable("a", 1), committable("a", 0)]
    assert show(query(), mine) == ([], (mine[2], mine[1], mine[0]))


def test_an_at_least_once_sink_shows_its_rows_beside_an_exact_one_that_waits() -> None:
    mine = [committable("a", 0), committable("b", 0, rows=4), committable("b", 1, rows=5)]
    effects, waiting = show(query(b=Level.AT_LEAST_ONCE), mine, [COMMITTED, COMMITTED])
    assert effects == [CommitStraight("b", (mine[1], mine[2])), Tell(hp.RowsShown(3, "b", 9))]
    assert waiting == (mine[0],)


def test_at_least_once_asks_again_for_what_was_not_taken_and_for_nothing_else() -> None:
    mine = [committable("a", 0), committable("a", 1), committable("a", 2)]
    effects, _ = show(query(a=Level.AT_LEAST_ONCE), mine, [COMMITTED, RETRY, UNKNOWN], [COMMITTED, ALREADY])
    assert effects[2] == CommitStraight("a", (mine[1], mine[2]))
    assert [type(each) for each in effects] == [CommitStraight, Hesitate, CommitStraight, Tell]


def test_at_least_once_counts_the_rows_that_a_sink_without_evidence_takes_after_a_try_without_an_answer() -> None:
    mine = [committable("a", 0, rows=7), committable("a", 1, rows=5), committable("a", 2, rows=3)]
    answers = ([COMMITTED, RETRY, RETRY], [COMMITTED, RETRY], [ALREADY])
    level = query(a=Level.AT_LEAST_ONCE)
    effects, _ = show(dataclasses.replace(level, repeating=frozenset({"a"})), mine, *answers)
    assert [each for each in effects if isinstance(each, Tell)] == [
        Tell(hp.RowsShownAgain(3, "a", 5)),
        Tell(hp.RowsShown(3, "a", 15)),
    ]
    effects, _ = show(level, mine, *answers)
    assert [each for each in effects if isinstance(each, Tell)] == [Tell(hp.RowsShown(3, "a", 15))]


def test_what_an_at_least_once_sink_has_lost_fails_the_epoch() -> None:
    with pytest.raises(TidegateError) as failed:
        show(query(a=Level.AT_LEAST_ONCE), [committable("a", 0)], [LOST])
    assert failed.value.catalogue_entry is Code.EPOCH_FAILED


def test_at_most_once_commits_with_evidence_and_waits_for_a_sink_that_is_not_ready() -> None:
    mine = (committable("a", 0), committable("a", 1))
    effects, waiting = show(query(a=Level.AT_MOST_ONCE), mine, [RETRY, RETRY], [ALREADY, COMMITTED])
    assert effects[0] == effects[2] == CommitSink("a", mine)
    assert effects[-1] == Tell(hp.RowsShown(3, "a", 20))
    assert waiting == ()


@pytest.mark.parametrize("answer", [LOST, UNKNOWN])
def test_at_most_once_gives_up_what_the_sink_cannot_answer_for_and_says_how_much(answer: Outcome) -> None:
    mine = (committable("a", 0, rows=7), committable("a", 1, rows=2))
    effects, _ = show(query(a=Level.AT_MOST_ONCE), mine, [COMMITTED, answer])
    assert effects[-2:] == [
        Tell(hp.RowsShown(3, "a", 7)),
        Tell(hp.RowsGivenUp(3, "a", 2, f"committed; {answer.value}")),
    ]


def test_at_most_once_asks_a_sink_without_evidence_only_once() -> None:
    console = dataclasses.replace(query(a=Level.AT_MOST_ONCE), forgetful=frozenset({"a"}))
    effects, _ = show(console, [committable("a", 0, rows=3)], [RETRY])
    assert effects[1:] == [Tell(hp.RowsShown(3, "a", 0)), Tell(hp.RowsGivenUp(3, "a", 3, "retry later"))]


def test_a_second_timeline_stops_an_at_most_once_job_too() -> None:
    steps = show_straight(query(a=Level.AT_MOST_ONCE), 3, (committable("a", 0),))
    next(steps)
    assert isinstance(steps.send([Answer(outcome=UNKNOWN, detail="another one's")]), LookForEvidence)
    with pytest.raises(TidegateError) as stopped:
        steps.send(Evidence.OTHER)
    assert stopped.value.catalogue_entry is Code.SECOND_TIMELINE


def test_at_most_once_does_not_wait_for_siblings_of_a_lost_transaction() -> None:
    mine = (committable("a", 0), committable("a", 1))
    effects, _ = show(query(a=Level.AT_MOST_ONCE), mine, [RETRY, LOST])
    assert [type(each) for each in effects] == [CommitSink, Tell, Tell]
