"""Ends one transaction of a job that does not run: with the protocol's own steps, or not at all.

A commit uses the code of the finisher: a run of its own finishes the transaction's epoch and every decided epoch before
it, completely and in order, and writes *done*. It would also be correct to commit only the one transaction and leave
*done* to the next start, as long as the sink can prove the commit. But Kafka's evidence expires, and a later start
could no longer decide.

If a restore was killed after its decisive step, it is finished first, as in any start. Its old generation's prepared
transactions are aborted: if they were committed, they would repeat rows that the new generation shows for the same
input.

An abort fences in the sink. It changes no journal and no record: if the transaction turns out to be decided, the next
start writes the rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import NoReturn

from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query, of_sink
from tidegate.core.next_steps import Remedy
from tidegate.core.records import Evidence, Outcome, SinkIdentity
from tidegate.operate.finishing import finish
from tidegate.operate.place import JobPlace, QueryPlace, open_job
from tidegate.operate.sinks import DescribedSink, Sinks, not_described, open_sink
from tidegate.operate.transactions import GatheredTransactions, Recorded, Waiting, look, name_of, recorded
from tidegate.operate.verdicts import Act, Named, Permission, Runs, Seen, permission, price
from tidegate.savepoints.settled import settle as finish_restore
from tidegate.sinks.base import TwoPhaseSink
from tidegate.storages.lease import HeldLease
from tidegate.storages.leases import taken_lease

_JVM_SECONDS = 5.0


class Ending(Enum):
    """The outcome."""

    COMMITTED = "committed"
    ALREADY = "was committed before"
    NOT_DONE = "committed; its epoch waits for another sink, and the next start of the job completes it"
    NOT_COMMITTED = "not committed: the sink is not ready, and the transaction waits as before"
    ABORTED = "aborted"
    NOTHING_OPEN = "nothing of it is open in the sink, so there is nothing to abort"
    UNKNOWN = "requested, and the outcome is unknown: look again"


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome, the finished `epochs`, and the sink's message."""

    ending: Ending
    epochs: tuple[int, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The request: the full name of a transaction, and the act.

    `force` repeats the name, to act against the verdict. `options` complete those that *sinks.json* leaves out. `reach`
    is called at each place of the protocol.
    """

    act: Act
    name: str
    options: Mapping[str, str]
    force: str | None = None
    patience_seconds: float = 30.0
    reach: Callable[[str, int | None], None] = lambda _point, _epoch: None


def settle(job: JobPlace, order: Order) -> Ended:
    """Carry out the order while both locks of the job are held. The locks prove that no run is alive.

    Raises DRIVER_ALIVE, TRANSACTION_UNNAMED, TRANSACTION_KEPT (nothing was done), and the errors of the sink and the
    ledger.
    """
    with ExitStack() as stack:
        held = stack.enter_context(taken_lease(job.folder, job.name, _JVM_SECONDS))
        order = replace(order, reach=partial(_reach_while_held, held, order.reach))
        finish_restore(job.folder)
        job = open_job(job.folder)
        found = look(job, order.options, Runs.NO)
        waiting = next((each for each in found.waiting if each.name == order.name), None)
        if waiting is None:
            return _what_is_done(job, order, found)
        _demand_permission(order, waiting)
        if order.act is Act.ABORT:
            return _abort(job, order, waiting, found)
        if waiting.named is Named.DECIDED:
            return _finish(job, order, waiting)
        return _commit_undecided(job, order, waiting)


def _reach_while_held(held: HeldLease, reach: Callable[[str, int | None], None], point: str, epoch: int | None) -> None:
    """A process that has lost the lease commits nothing more."""
    reach(point, epoch)
    if (lost := held.lost_here()) is not None:
        raise lost


def _demand_permission(order: Order, waiting: Waiting) -> None:
    allowed = permission(order.act, waiting.named, waiting.verdict)
    if allowed is Permission.GIVEN or (allowed is Permission.FORCED_ONLY and order.force == order.name):
        return
    by_force = f"To do it against the verdict: --force {order.name}. Then: {price(order.act, waiting.named)}"
    right = {Act.COMMIT: "abort", Act.ABORT: "commit"}[order.act]
    raise TidegateError(
        Code.TRANSACTION_KEPT,
        expected=f"a transaction whose verdict is {order.act.value}",
        found=f"verdict {waiting.verdict.value} (ledger: {waiting.named.value}; sink: {waiting.seen.value})",
        where=f"job {waiting.job}, query {waiting.query}, sink {waiting.sink}, {waiting.name}",
        next_step=f"`tidegate txn {right}`, or start the job, which ends each one correctly. "
        + (by_force if allowed is Permission.FORCED_ONLY else "This cannot be forced"),
    )


# --- commit ------------------------------------------------------------------------------------------------


def _finish(job: JobPlace, order: Order, waiting: Waiting) -> Ended:
    """Finish the transaction's epoch with the protocol's own steps. If they fail, the evidence in the sink gives the
    outcome."""
    place = _query_of(job, waiting)
    record = _record_of(job, place, order.name)
    epoch = record.committable.attempt.epoch
    sinks, query = _sinks_for(job, place, order, through=epoch)
    try:
        finished = finish(place, query, sinks, epoch, order.patience_seconds, order.reach)
    except TidegateError as error:
        if error.catalogue_entry is Code.TRANSACTION_UNKNOWN:
            return Ended(Ending.UNKNOWN, detail=str(error))
        if error.catalogue_entry.remedy is Remedy.DECIDE:
            raise
        return Ended(_by_evidence(sinks[waiting.sink], record), detail=str(error))
    return Ended(Ending.COMMITTED, tuple(finished))


def _by_evidence(sink: TwoPhaseSink, record: Recorded) -> Ending:
    """The outcome for a transaction whose epoch could not be finished."""
    try:
        evidence = sink.evidence(record.committable)
    except TidegateError:
        return Ending.UNKNOWN
    match evidence:
        case Evidence.PRESENT:
            return Ending.NOT_DONE
        case Evidence.ABSENT:
            return Ending.NOT_COMMITTED
        case Evidence.UNKNOWN | Evidence.OTHER:
            return Ending.UNKNOWN


def _sinks_for(job: JobPlace, place: QueryPlace, order: Order, through: int) -> tuple[dict[str, TwoPhaseSink], Query]:
    """The opened sinks of the decided epochs up to `through`, and the query.

    A sink without rows in these epochs is not needed and need not be reachable.
    """
    described = Sinks(job.storage)
    needed = {
        each.committable.attempt.sink.sink
        for each in recorded(job, place, Runs.NO).waiting
        if each.named is Named.DECIDED and each.committable.attempt.epoch <= through
    }
    sinks: dict[str, TwoPhaseSink] = {}
    compared: set[str] = set()
    for uid in place.start.sinks:
        found = described.get(place.uid, uid)
        if uid in needed and found is None:
            raise not_described(place.uid, uid)
        if uid in needed and found is not None:
            sinks[uid] = open_sink(found, order.options)
            compared |= {uid} if found.keeps_evidence else set()
    forgetful = frozenset(uid for uid in place.start.sinks if uid not in compared)
    expiring = frozenset(uid for uid, sink in sinks.items() if sink.evidence_expires)
    return sinks, job.query(place, forgetful, expiring)


def _commit_undecided(job: JobPlace, order: Order, waiting: Waiting) -> Ended:
    """Force-commit all transactions that the prepared record holds for this sink. Writes no ledger record."""
    place = _query_of(job, waiting)
    record = _record_of(job, place, order.name)
    sink = open_sink(_described(job, waiting), order.options)
    answers = sink.commit(of_sink(record.prepared.committables, waiting.sink))
    outcomes = {answer.outcome for answer in answers}
    detail = "; ".join(answer.detail for answer in answers if answer.detail)
    if outcomes <= {Outcome.COMMITTED, Outcome.ALREADY}:
        return Ended(Ending.COMMITTED, detail=price(Act.COMMIT, waiting.named))
    if outcomes == {Outcome.LOST}:
        return Ended(Ending.NOT_COMMITTED, detail=detail)
    return Ended(Ending.UNKNOWN, detail=detail)


# --- abort -------------------------------------------------------------------------------------------------


def _abort(job: JobPlace, order: Order, waiting: Waiting, found: GatheredTransactions) -> Ended:
    if waiting.seen is Seen.NOT_KNOWN:
        _raise_why(found, waiting)
    if waiting.seen is not Seen.OPEN:
        return Ended(Ending.NOTHING_OPEN, detail=f"in the sink: {waiting.seen.value}")
    try:
        sink = open_sink(_described(job, waiting), order.options)
        sink.abort([waiting.name])
        still_open = sink.open_transactions(_identity(job, waiting))
    except TidegateError as error:
        return Ended(Ending.UNKNOWN, detail=str(error))
    if any(each.name == waiting.name for each in still_open):
        return Ended(Ending.UNKNOWN, detail="it is still open")
    return Ended(Ending.ABORTED)


# --- unknown names and errors ------------------------------------------------------------------------------


def _what_is_done(job: JobPlace, order: Order, found: GatheredTransactions) -> Ended:
    """The outcome for a name that does not wait: the transaction was committed, or is unknown."""
    for place in job.queries():
        if any(name_of(each.committable) == order.name for each in recorded(job, place, Runs.NO).done):
            if order.act is Act.COMMIT:
                return Ended(Ending.ALREADY)
            raise TidegateError(
                Code.TRANSACTION_KEPT,
                expected="a transaction that is not committed",
                found="its epoch is done: every sink has committed",
                where=f"job {job.name}, query {place.uid}, {order.name}",
                next_step="nothing: what is committed cannot be aborted",
            )
    if found.problems:
        raise found.problems[0]
    names = ", ".join(each.name for each in found.waiting[:10]) or "none"
    raise TidegateError(
        Code.TRANSACTION_UNNAMED,
        expected=f"the whole name of a transaction that waits (there are: {names})",
        found=repr(order.name[:200]),
        where=f"job {job.name}",
        next_step=f"see `tidegate txn ls {job.name}`: it may have been ended meanwhile",
    )


def _query_of(job: JobPlace, waiting: Waiting) -> QueryPlace:
    return next(place for place in job.queries() if place.uid == waiting.query)


def _identity(job: JobPlace, waiting: Waiting) -> SinkIdentity:
    return job.query(_query_of(job, waiting), frozenset(), frozenset()).sink(waiting.sink)


def _record_of(job: JobPlace, place: QueryPlace, name: str) -> Recorded:
    records = recorded(job, place, Runs.NO).waiting
    return next(each for each in records if name_of(each.committable) == name)


def _described(job: JobPlace, waiting: Waiting) -> DescribedSink:
    described = Sinks(job.storage).get(waiting.query, waiting.sink)
    if described is None:
        raise not_described(waiting.query, waiting.sink)
    return described


def _raise_why(found: GatheredTransactions, waiting: Waiting) -> NoReturn:
    """Raise the error that kept a transaction's sink out of reach."""
    raise (
        found.problems[0]
        if found.problems
        else TidegateError(
            Code.TRANSACTION_UNKNOWN,
            expected="a sink that can tell how the transaction stands",
            found="it cannot",
            where=f"sink {waiting.sink}, {waiting.name}",
        )
    )
