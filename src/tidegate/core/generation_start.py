"""The begin of a generation of a query, and its check at every later start."""

from __future__ import annotations

from tidegate.core.effects import Steps, get, put_if_absent
from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.fingerprints import NOTHING_ALLOWED, Comparison, compare_at_start
from tidegate.core.ledger import (
    DECIDED,
    OPERATORS,
    START,
    Query,
    entry,
    newest_committed,
    numbers,
    read_start,
)
from tidegate.core.records import OperatorsAccepted, Run, Start, decode, encode


def begin_generation(query: Query, run: Run) -> Steps[None]:
    """*start*, once for each generation. Later starts must name the same sources and sinks in the same order, and
    compute the state with the same operators.
    """
    yield from put_if_absent(START, encode(query.start(first_epoch=0)), "start")
    start = yield from read_start()
    if (start.job_id, start.generation) != (query.job_id, query.generation):
        raise TidegateError(
            Code.JOB_MISMATCH,
            expected=f"job id {query.job_id}, generation {query.generation}",
            found=f"job id {start.job_id}, generation {start.generation}",
            where=f"{query}, {START}",
            next_step="put the checkpoint folder back from one copy, or name another checkpointing.dir",
        )
    for what, now, then in (("sources", query.sources, start.sources), ("sinks", query.sinks, start.sinks)):
        if now != then:
            raise TidegateError(
                Code.SOURCES_CHANGED,
                expected=f"{what} {', '.join(then)}, in this order",
                found=f"{what} {', '.join(now)}",
                where=str(query),
                next_step=f"put the {what} back as they were, or start under another job name or checkpointing.dir",
            )
    yield from _accept_operators(query, run)


def compare_with_ledger(query: Query, at: str = "") -> Steps[Comparison]:
    """The operators of the program and those in the ledger. Only reads."""
    found, _ = yield from _compared(query, at)
    return found


def _accept_operators(query: Query, run: Run) -> Steps[None]:
    """*operators/N*, before Spark starts the query. If another driver has put that number first, compare again."""
    while True:
        found, number = yield from _compared(query, run.since)
        raise_all(found.errors, str(query))
        if found.record is None:
            return
        if (yield from put_if_absent(entry(OPERATORS, number), encode(found.record), "operators")):
            return


def _compared(query: Query, at: str) -> Steps[tuple[Comparison, int]]:
    """Compare the program's operators with the stored ones.

    Also returns the number that the next operator record would get.
    """
    data = None if query.fingerprints is None else (yield from get(START))
    if data is None or query.fingerprints is None:
        return Comparison(), 1
    start = decode(Start, data, START)
    accepted: list[OperatorsAccepted] = []
    known = yield from numbers(OPERATORS)
    for number in known:
        name = entry(OPERATORS, number)
        record = yield from get(name)
        if record is not None:
            accepted.append(decode(OperatorsAccepted, record, name))
    allowed = query.allowed
    if allowed.once and any(each.once == allowed.once for each in accepted):
        allowed = NOTHING_ALLOWED
    found = compare_at_start(
        query.uid,
        accepted[-1].fingerprints if accepted else start.fingerprints,
        query.fingerprints,
        has_state=(yield from _has_state(start)),
        allowed=allowed,
        where=str(query),
        at=at,
    )
    return found, max(known, default=0) + 1


def _has_state(start: Start) -> Steps[bool]:
    """True if an epoch was decided. Only then state can exist: undecided epochs are computed again."""
    decided = yield from numbers(DECIDED)
    return start.first_epoch > 0 or bool(decided) or (yield from newest_committed()) is not None
