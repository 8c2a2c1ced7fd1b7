"""Sinks below exactly-once: their rows become visible inside the epoch, before it is decided.

At-least-once repeats rows that an older run of the same epoch has shown: no evidence is stored or read. At-most-once
commits with evidence, so a lost answer repeats no row. Rows whose state the sink cannot prove are dropped: their epoch
never runs again (`levels`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.effects import CommitStraight, Hesitate, Steps, Tell, commit_sink, look_for_evidence
from tidegate.core.errors import Code, TidegateError
from tidegate.core.finish import tell_shown_again
from tidegate.core.happenings import RowsGivenUp, RowsShown
from tidegate.core.ledger import Query, of_sink
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Committable, Evidence, Outcome

_TAKEN = frozenset({Outcome.COMMITTED, Outcome.ALREADY})


def show_straight(query: Query, epoch: int, committables: tuple[Committable, ...]) -> Steps[tuple[Committable, ...]]:
    """Commit the rows of sinks below exactly-once inside the epoch. Returns the committables of the other sinks."""
    waiting: list[Committable] = []
    for sink in query.sinks:
        mine = of_sink(committables, sink)
        if not mine:
            continue
        match query.level(sink):
            case Level.EXACTLY_ONCE:
                waiting += mine
            case Level.AT_LEAST_ONCE:
                yield from _until_taken(query, epoch, mine)
            case Level.AT_MOST_ONCE:
                yield from _once(query, epoch, mine)
    return tuple(waiting)


def _until_taken(query: Query, epoch: int, committables: tuple[Committable, ...]) -> Steps[None]:
    """Retry the commit until the sink has committed all rows. Rows that a sink without evidence takes after a try
    without an answer are counted: they may be there twice.

    A lost transaction fails the epoch; its input is then replayed.
    """
    sink, tries = committables[0].attempt.sink.sink, 0
    left: tuple[Committable, ...] = committables
    while left:
        answers = yield from _commit_straight(sink, left)
        lost = [answer.detail for answer in answers if answer.outcome is Outcome.LOST]
        if lost:
            raise TidegateError(
                Code.EPOCH_FAILED,
                expected=f"sink {sink} to take {sum(each.rows for each in left)} rows",
                found=lost[0],
                where=f"{query}, epoch {epoch}",
                next_step="start again: the epoch's input comes again, and with it rows that were already shown",
            )
        if tries:
            yield from tell_shown_again(query, left, answers)
        left = tuple(each for each, answer in zip(left, answers, strict=True) if answer.outcome not in _TAKEN)
        if left:
            yield Hesitate(sink, epoch, tries, _details(answers))
            tries += 1
    yield Tell(RowsShown(epoch, sink, sum(each.rows for each in committables)))


def _once(query: Query, epoch: int, committables: tuple[Committable, ...]) -> Steps[None]:
    """Commit with evidence. Wait for a sink that is not ready, and give up rows that it has lost or cannot answer for.

    A sink without evidence (a console) gets one try only: it may have shown a part.
    """
    sink, tries = committables[0].attempt.sink.sink, 0
    while True:
        answers = yield from commit_sink(sink, committables)
        outcomes = {answer.outcome for answer in answers}
        if Outcome.RETRY not in outcomes or outcomes & {Outcome.LOST, Outcome.UNKNOWN} or sink in query.forgetful:
            break
        yield Hesitate(sink, epoch, tries, _details(answers))
        tries += 1
    if Outcome.UNKNOWN in outcomes and (yield from look_for_evidence(sink, committables[0])) is Evidence.OTHER:
        raise TidegateError(
            Code.SECOND_TIMELINE,
            expected=f"nothing for epoch {epoch} in sink {sink}",
            found=_details(answers),
            where=f"{query}, epoch {epoch}",
        )
    taken = sum(each.rows for each, answer in zip(committables, answers, strict=True) if answer.outcome in _TAKEN)
    yield Tell(RowsShown(epoch, sink, taken))
    if not outcomes <= _TAKEN:
        yield Tell(RowsGivenUp(epoch, sink, sum(each.rows for each in committables) - taken, _details(answers)))


def _commit_straight(sink: str, committables: tuple[Committable, ...]) -> Steps[Sequence[Answer]]:
    return (yield CommitStraight(sink, committables))


def _details(answers: Sequence[Answer]) -> str:
    return "; ".join(answer.detail for answer in answers if answer.detail)
