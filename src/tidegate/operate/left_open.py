"""What an earlier start has left in sinks that the program has no more: renamed, dropped, or in another place now.

Recovery of a query asks the sinks that the query has. What a sink of another name holds open (an attempt that was
killed before *prepared* is in no record) would stay so until the target's own timeout, and readers wait behind it. So
every start asks those, too, before it describes its own sinks: whose a transaction is its parsed name says, and what a
decided record names is left alone. What they have staged for generations that the job has given up goes as well.
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

Names = tuple[str, str]
"""The uids of a query and of a sink."""


def give_up_what_is_left(
    job: JobPlace,
    sinks: Mapping[Names, TwoPhaseSink],
    described: Sequence[DescribedSink],
    passed: Callable[[str], None] = lambda _step: None,
) -> None:
    """Abort what is open, and remove what is staged, in sinks that are not among `sinks` and `described`, which are the
    program's. Only with the job's locks held; again after a kill. A sink that is out of reach is warned of: it may be
    gone for good, and must not keep the job from starting."""
    before = {names: sink for names, sink in _renamed(job, sinks) if names not in sinks}
    gone = {(each.query, each.uid): each for each in _described_before(job) if each not in described}
    for query, uid in sorted({*before, *gone}):
        try:
            there = gone.get((query, uid))
            sink = before.get((query, uid)) or (None if there is None else _opened(there))
            if sink is not None:
                _give_up(job, query, uid, sink, is_of_this_folder=there is not None)
        except (TidegateError, OSError) as error:
            _LOG.warning(
                "job %s, query %s: what sink %s had left open could not be aborted; where its target has a timeout, it"
                " goes then, and until then readers may wait behind it: %s",
                *(job.name, query, uid, error),
            )
        passed(f"query {query}, sink {uid} of an earlier start, given up")


def _renamed(job: JobPlace, sinks: Mapping[Names, TwoPhaseSink]) -> Iterator[tuple[Names, TwoPhaseSink]]:
    """The names that sinks of the program have in the savepoint that the job was opened from. In a folder that the job
    has moved to, nothing but the savepoint knows them."""
    restored = read_restored(job.folder, job.record)
    before = {} if restored is None else {now: then for then, now in restored.renamed.items()}
    for (query, uid), sink in sinks.items():
        yield (before.get(query, query), before.get(uid, uid)), sink


def _described_before(job: JobPlace) -> list[DescribedSink]:
    """By the last start in this folder. A file for the living: where it cannot be read nothing is known of them."""
    try:
        return Sinks(job.storage).all()
    except TidegateError as error:
        _LOG.warning("job %s: what its sinks were before is not known: %s", job.name, error)
        return []


def _opened(described: DescribedSink) -> TwoPhaseSink | None:
    return open_sink(described, {}) if described.opens_without_the_program else None


def _give_up(job: JobPlace, query: str, uid: str, sink: TwoPhaseSink, *, is_of_this_folder: bool) -> None:
    decided = _decided(job, query)
    open_ = () if decided is None else sink.pending(job.sink(query, uid))
    if undecided := [name for name in open_ if name not in (decided or ())]:
        sink.abort(undecided)
        _LOG.warning(
            "job %s, query %s: aborted %d transactions that sink %s had left open", job.name, query, len(undecided), uid
        )
    # What another folder has staged is that folder's; and in this generation it may be decided.
    for generation in range(1, job.record.generation) if is_of_this_folder else ():
        sink.discard(job.sink(query, uid, generation), 0)


def _decided(job: JobPlace, query: str) -> frozenset[str] | None:
    """The names of the transactions that a decided record of the query names; None where the ledger does not tell."""
    place = next((place for place in job.queries() if place.uid == query), None)
    if place is None:
        return frozenset()
    records = recorded(job, place, Runs.NO)
    if records.problems:
        return None
    return frozenset(name_of(each.committable) for each in records.waiting if each.named is Named.DECIDED)
