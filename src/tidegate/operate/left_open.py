"""Cleans up sinks that an earlier start used and the program no longer has: renamed, removed, or with another target.

Recovery of a query only contacts the sinks that the query has now. An attempt that was killed before *prepared* is in
no record. In a removed sink it would stay open until the target's own timeout, and readers would wait for it. So every
start contacts these sinks too, before it describes its own sinks. The parsed name of a transaction shows its owner. A
transaction that a decided record names is not touched. Staged data of generations that the job has given up is removed
as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from tidegate.core.errors import TidegateError
from tidegate.operate.place import JobPlace
from tidegate.operate.sinks import DescribedSink, Sinks, open_sink
from tidegate.operate.transactions import name_of, recorded
from tidegate.operate.verdicts import Named, Runs
from tidegate.savepoints.restored import read_restored
from tidegate.sinks.base import TwoPhaseSink

_LOG = logging.getLogger("tidegate")

SinkNames = tuple[str, str]
"""The uids of a query and of a sink."""


def give_up_what_is_left(
    job: JobPlace,
    sinks: Mapping[SinkNames, TwoPhaseSink],
    described: Sequence[DescribedSink],
    passed: Callable[[str], None] = lambda _step: None,
) -> None:
    """Abort open transactions and remove staged data in sinks that are neither in `sinks` nor in `described` (the sinks
    of the program).

    The caller must hold the job's locks. After a kill, call it again. A sink out of reach causes only a warning: it may
    be gone for good and must not prevent a start.
    """
    before = {names: sink for names, sink in _renamed(job, sinks) if names not in sinks}
    gone = {(each.query, each.uid): each for each in _described_before(job) if each not in described}
    for query, uid in sorted({*before, *gone}):
        try:
            there = gone.get((query, uid))
            sink = before.get((query, uid)) or (None if there is None else _opened(there))
            if sink is not None:
                # Staged data of another folder belongs to that folder; staged data of this generation may be decided.
                staged = range(1, 1 if there is None else job.record.generation)
                _give_up(job, query, uid, sink, staged)
        except (TidegateError, OSError) as error:
            _LOG.warning(
                "job %s, query %s: the open transactions of sink %s could not be aborted. They end at the timeout of"
                " the target, if it has one; until then readers may wait for them: %s",
                *(job.name, query, uid, error),
            )
        passed(f"query {query}, sink {uid} of an earlier start, aborted")


def _renamed(job: JobPlace, sinks: Mapping[SinkNames, TwoPhaseSink]) -> Iterator[tuple[SinkNames, TwoPhaseSink]]:
    """The names that the program's sinks have in the savepoint from which the job was opened. In a folder that the job
    has moved to, only the savepoint has them."""
    restored = read_restored(job.folder, job.record)
    before = {} if restored is None else {now: then for then, now in restored.renamed.items()}
    for (query, uid), sink in sinks.items():
        yield (before.get(query, query), before.get(uid, uid)), sink


def _described_before(job: JobPlace) -> list[DescribedSink]:
    """The sinks that the last start in this folder described. Empty if the file is unreadable."""
    try:
        return Sinks(job.storage).all()
    except TidegateError as error:
        _LOG.warning("job %s: the descriptions of its earlier sinks cannot be read: %s", job.name, error)
        return []


def _opened(described: DescribedSink) -> TwoPhaseSink | None:
    return open_sink(described, {}) if described.opens_without_the_program else None


def _give_up(job: JobPlace, query: str, uid: str, sink: TwoPhaseSink, staged: range) -> None:
    """Abort the undecided transactions, and remove the staged data of the generations `staged`."""
    decided = _decided(job, query)
    open_ = () if decided is None else sink.pending(job.sink(query, uid))
    if undecided := [name for name in open_ if name not in (decided or ())]:
        sink.abort(undecided)
        _LOG.warning(
            "job %s, query %s: aborted %d transactions that sink %s had left open", job.name, query, len(undecided), uid
        )
    for generation in staged:
        sink.discard(job.sink(query, uid, generation), 0)


def _decided(job: JobPlace, query: str) -> frozenset[str] | None:
    """The transactions that a decided record of the query names; None if the ledger is unreadable."""
    place = next((place for place in job.queries() if place.uid == query), None)
    if place is None:
        return frozenset()
    records = recorded(job, place, Runs.NO)
    if records.problems:
        return None
    return frozenset(name_of(each.committable) for each in records.waiting if each.named is Named.DECIDED)
