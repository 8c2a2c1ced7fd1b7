"""The waiting transactions of a job: those that the ledger names, compared with those that the sinks hold open.

Only reads and takes no lock. While the job runs, all transactions are in use.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from tidegate.core import effects as fx
from tidegate.core.errors import Code, TidegateError
from tidegate.core.finish import choose
from tidegate.core.ledger import (
    COMMITS,
    DECIDED,
    OFFSETS,
    Query,
    entry,
    newest_committed,
    numbers,
    prepared_entries,
    prepared_name,
    read_decided,
    read_finished,
    read_prepared,
)
from tidegate.core.records import Committable, Decided, Evidence, Prepared, SinkIdentity, digest_of
from tidegate.core.seal import find_seal
from tidegate.operate.place import JobPlace, QueryPlace
from tidegate.operate.reading import read_only
from tidegate.operate.sinks import DescribedSink, Sinks, not_described, open_sink
from tidegate.operate.verdicts import Named, Runs, Seen, Verdict, verdict_of
from tidegate.sinks.base import JournalKeeper, OpenTransaction, TwoPhaseSink
from tidegate.storages.leases import driver_or_engine_lives
from tidegate.storages.storage import Storage

ResultT = TypeVar("ResultT")


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction. Values that no record gives are None."""

    job: str
    query: str
    sink: str
    target: str
    name: str
    epoch: int | None
    run: int | None
    task: int | None
    rows: int | None
    age_seconds: float | None
    named: Named
    seen: Seen
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Transactions:
    """The waiting transactions, and the problems. With problems, transactions may be missing or incomplete."""

    waiting: tuple[Waiting, ...] = ()
    problems: tuple[TidegateError, ...] = ()


@dataclass(frozen=True, slots=True)
class GatheredTransactions:
    """The same while it is collected."""

    waiting: list[Waiting]
    problems: list[TidegateError]

    def frozen(self) -> Transactions:
        return Transactions(tuple(self.waiting), tuple(self.problems))


def look(job: JobPlace, options: Mapping[str, str], runs: Runs | None = None) -> GatheredTransactions:
    """All waiting transactions of a job. `options`: the options that *sinks.json* leaves out.

    `runs`: given by a caller that holds the locks itself.
    """
    runs = Runs.of(driver_or_engine_lives(job.folder)) if runs is None else runs
    found = GatheredTransactions([], [])
    sinks = Sinks(job.storage)
    for place in job.queries():
        records = recorded(job, place, runs)
        for uid in place.start.sinks:
            query = job.query(place, frozenset(), frozenset())
            mine = [each for each in records.waiting if each.committable.attempt.sink.sink == uid]
            described = sinks.get(place.uid, uid)
            if described is not None and not described.opens_without_the_program and not mine:
                continue  # nothing of this sink waits, and only the program can open it
            seen = _ask(described, query.sink(uid), [each.committable for each in mine], options)
            found.problems.extend(seen.problems)
            found.waiting.extend(_joined(job, place, uid, mine, seen, runs))
        found.problems.extend(records.problems)
    return found


def name_of(committable: Committable) -> str:
    """The display name of a transaction: the name that its sink's `pending` gives, or its attempt if nothing is
    pending."""
    if "transactional_id" in committable.handle:
        from tidegate.sinks.kafka.transaction import (
            Handle,
        )  # imported here: jobs without Kafka sinks do not wait for it

        return Handle.of(committable).producer.name
    if "gid" in committable.handle:  # of a transaction that a database has prepared
        return committable.handle["gid"]
    attempt = committable.attempt
    return f"{attempt.sink.sink}.e{attempt.epoch}.{attempt.name}"


# --- the ledger --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recorded:
    """A committable in a prepared record: the state of the record, and its time (Unix time)."""

    committable: Committable
    named: Named
    prepared: Prepared
    written_at: float | None


@dataclass(frozen=True, slots=True)
class Records:
    """The committables of unfinished epochs, those of finished and committed epochs, and flaws of the ledger."""

    waiting: list[Recorded] = field(default_factory=list[Recorded])
    done: list[Recorded] = field(default_factory=list[Recorded])
    problems: list[TidegateError] = field(default_factory=list[TidegateError])


def recorded(job: JobPlace, place: QueryPlace, runs: Runs) -> Records:
    """The committables of a query, by their state in the ledger."""
    query, storage = job.query(place, frozenset(), frozenset()), place.storage
    found = Records()
    finished = read_only(storage, read_finished())
    for epoch in read_only(storage, _epochs(finished)):
        candidates = read_only(storage, read_prepared(epoch))
        try:
            decided = read_only(storage, _decision(query, epoch, candidates, runs))
            if decided is not None and epoch > finished and runs is Runs.NO:
                _demand_its_record(query, decided, candidates)
        except TidegateError as error:
            found.problems.append(error)
            by_digest = dict.fromkeys((digest_of(data) for data, _ in candidates), Named.UNREADABLE)
        else:
            by_digest = {digest_of(data): _named(decided, data) for data, _ in candidates}
        for data, prepared in candidates:
            named, written_at = by_digest[digest_of(data)], _written_at(storage, prepared)
            listed = found.waiting if epoch > finished else found.done if named is Named.DECIDED else []
            listed.extend(Recorded(each, named, prepared, written_at) for each in prepared.committables)
    return found


def _epochs(finished: int) -> fx.Steps[list[int]]:
    """The epochs to show: those with a prepared record, and those after `finished` that are decided or in Spark's
    commit log.

    The latter must have a prepared record. In a sealed generation every decided epoch is finished.
    """
    newest, seal = (yield from newest_committed()), (yield from find_seal())
    logged = range(finished + 1, (finished if newest is None or seal is not None else newest) + 1)
    decided = [number for number in (yield from numbers(DECIDED)) if number > finished and seal is None]
    return sorted({*logged, *decided, *(number for number, _ in (yield from prepared_entries()))})


def _demand_its_record(query: Query, decided: Decided, candidates: list[tuple[bytes, Prepared]]) -> None:
    if all(digest_of(data) != decided.prepared_digest for data, _ in candidates):
        raise TidegateError(
            Code.LEDGER_HOLE,
            expected=f"the record {prepared_name(decided.epoch, decided.run)}, which was decided",
            found="no such record",
            where=f"{query}, epoch {decided.epoch}",
            next_step="restore the whole folder of the job from one copy, or restore a savepoint: tidegate"
            " run -s PATH APP",
        )


def _decision(
    query: Query, epoch: int, candidates: list[tuple[bytes, Prepared]], runs: Runs
) -> fx.Steps[Decided | None]:
    """*decided/N*, or the content that it will have: an epoch at or below the newest commits entry is decided, even
    before the file is written.

    While a driver is alive, Spark's log changes and decides nothing here. Nor does it behind a seal.
    """
    seal = yield from find_seal()
    if seal is not None and epoch >= seal.epoch:
        return None
    standing = yield from read_decided(epoch)
    newest = yield from newest_committed()
    if standing is not None or runs is Runs.YES or newest is None or epoch > newest:
        return standing
    if (yield from read_finished()) >= epoch:
        return None  # finished, and its decision removed since
    offsets, commits = (yield from fx.get(entry(OFFSETS, epoch))), (yield from fx.get(entry(COMMITS, epoch)))
    return choose(query, epoch, offsets, commits, candidates)


def _named(decided: Decided | None, data: bytes) -> Named:
    if decided is None:
        return Named.PREPARED
    return Named.DECIDED if digest_of(data) == decided.prepared_digest else Named.NOT_CHOSEN


def _written_at(storage: Storage, prepared: Prepared) -> float | None:
    seen = storage.look(prepared_name(prepared.epoch, prepared.run))
    return None if seen is None else seen.written_at


# --- the sinks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SinkReport:
    """The answer of one sink: its open transactions, and the state of each committable by name."""

    target: str
    open: Sequence[OpenTransaction]
    standing: Mapping[str, Seen]
    problems: list[TidegateError]


def _ask(
    described: DescribedSink | None, identity: SinkIdentity, committables: list[Committable], options: Mapping[str, str]
) -> _SinkReport:
    if described is None:
        return _SinkReport("not described", [], {}, [not_described(identity.query, identity.sink)])
    target = described.told
    try:
        sink = open_sink(described, options)
        open_ = sink.open_transactions(identity)
        names = {each.name for each in open_}
        standing = {name_of(each): _standing(sink, each, names) for each in committables}
    except TidegateError as error:
        return _SinkReport(target, [], {}, [error])
    return _SinkReport(target, open_, standing, [])


def _standing(sink: TwoPhaseSink, committable: Committable, open_: set[str]) -> Seen:
    if name_of(committable) in open_:
        return Seen.OPEN
    match sink.evidence(committable):
        case Evidence.PRESENT:
            return Seen.COMMITTED
        case Evidence.ABSENT:
            return Seen.STAGED if sink.journal_keeper() is JournalKeeper.STAGE else Seen.GONE
        case Evidence.OTHER:
            return Seen.ANOTHER_TIMELINE
        case Evidence.UNKNOWN:
            return Seen.NOT_KNOWN


# --- both together -----------------------------------------------------------------------------------------


def _joined(
    job: JobPlace, place: QueryPlace, uid: str, records: Iterable[Recorded], asked: _SinkReport, runs: Runs
) -> list[Waiting]:
    """Recorded transactions first, then open transactions without a record."""
    now = time.time()
    found: list[Waiting] = []

    def add(name: str, named: Named, seen: Seen, since: float | None, record: Recorded | None) -> None:
        attempt = None if record is None else record.committable.attempt
        found.append(
            Waiting(
                job=job.name,
                query=place.uid,
                sink=uid,
                target=asked.target,
                name=name,
                epoch=None if attempt is None else attempt.epoch,
                run=None if attempt is None else attempt.run,
                task=None if attempt is None else attempt.task,
                rows=None if record is None else record.committable.rows,
                age_seconds=None if since is None else round(max(0.0, now - since), 1),
                named=named,
                seen=seen,
                verdict=verdict_of(named, seen, runs),
            )
        )

    since = {each.name: each.since for each in asked.open}
    for record in records:
        name = name_of(record.committable)
        began = since.pop(name, None) or record.written_at
        add(name, record.named, asked.standing.get(name, Seen.NOT_KNOWN), began, record)
    for each in asked.open:
        if each.name in since:
            add(each.name, Named.NOWHERE if each.mine else Named.ANOTHER_JOB, Seen.OPEN, each.since, None)
    return found
