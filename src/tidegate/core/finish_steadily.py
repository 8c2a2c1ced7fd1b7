"""The finisher of a living run: as `finish`, in few requests, and none of them a list.

Recovery knows nothing, and lists folders. A living run knows what it has put itself: *prepared/N.R*, *decided/N*,
*finished_through*. Such a record is recalled (`effects.Recall`) and not read again.

What is left out, and why nothing is lost by it:

* A decision is made from the run's own *prepared/N.R*, if it matches the surviving state, without a list of the others.
  State ids match one record only. Without state ids the record of the newest run counts. A run that is not the newest
  finds that out in its next look. All runs obey the record that won.
* After its put one look for a newer run replaces the reads of *done/N* and *finished_through*. Only a newer run can
  have finished the epoch and removed its decision. If there is one, both are read, a decision that came too late is
  withdrawn, and nothing is committed. The same look precedes the commit of the first sink.
* *decided/N* is put without a look whether it is there: the put says so.
* Old records go every `Query.cleaned_together` epochs, by their names. What older runs have left beside them goes at
  the next start. Journals of attempts that no record names also go every `SWEPT_EVERY` epochs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from tidegate.core.effects import (
    CleanThrough,
    DeleteAll,
    Steps,
    Tell,
    await_commits,
    await_finished,
    peek,
    put_if_absent,
    recall,
)
from tidegate.core.epoch_time import forget_overdue
from tidegate.core.finish import choose, decide, finish_decided_epoch, matches, withdraw_if_late
from tidegate.core.happenings import EpochDecided
from tidegate.core.ledger import (
    COMMITS,
    DECIDED,
    DONE,
    KEPT_AT_LEAST,
    OFFSETS,
    Query,
    entry,
    has_successor,
    newest_committed,
    numbers,
    prepared_entries,
    prepared_name,
    stop_if_superseded,
    superseded,
)
from tidegate.core.records import NOTHING_FINISHED, Decided, Prepared, Run, decode, encode
from tidegate.core.spark_log import parse_commits, parse_offsets

SWEPT_EVERY: Final = 500
"""Every so many epochs the journals are listed, and all of finished epochs are removed."""


def finish_as_they_come(query: Query, run: Run, cut_off_before: Collection[int] = ()) -> Steps[None]:
    """The finisher: finish every epoch that Spark's commit log shows, in order, until the run ends. Also removes the
    records of earlier cut-offs.
    """
    finished = yield from await_finished(NOTHING_FINISHED)  # as recovery has found it: the stream's thread counts on it
    behind = yield from _look_behind(finished)
    alive = True
    while alive:
        alive = yield from await_commits(finished)
        newest = finished + 1 if alive else (yield from newest_committed())
        for epoch in range(finished + 1, (finished if newest is None else newest) + 1):
            decided = yield from decide_and_look(query, run, epoch)
            prepared = yield from finish_decided_epoch(query, run, decided)
            finished = epoch
            if epoch in cut_off_before:
                yield from forget_overdue(epoch)
            yield from _clean_up_behind(query, run, prepared, behind)


def decide_and_look(query: Query, run: Run, epoch: int) -> Steps[Decided]:
    """*decided/N* for an epoch that Spark's commit log shows: a new one, or the one that won. The look for a newer run
    comes after the decision.
    """
    record = yield from _from_own(query, run, epoch)
    if record is not None and (yield from put_if_absent(entry(DECIDED, epoch), encode(record), "decision")):
        if (yield from has_successor(run)):
            yield from withdraw_if_late(epoch, record)
            raise superseded(query, run, f"run {run.run + 1} exists")
        yield Tell(EpochDecided(epoch=epoch, run=record.run))
        return record
    decided = yield from decide(query, epoch)
    yield from stop_if_superseded(query, run)
    if decided is None:
        raise superseded(query, run, f"epoch {epoch} was finished by another run")
    return decided


def _from_own(query: Query, run: Run, epoch: int) -> Steps[Decided | None]:
    """The decision for what this run itself has prepared; None if something else has survived, or is in doubt."""
    commits = yield from peek(entry(COMMITS, epoch))
    offsets = (yield from peek(entry(OFFSETS, epoch))) if query.local_lease else None
    whole_offsets = None if parse_offsets(offsets) is None else offsets
    name = prepared_name(epoch, run.run)
    data = yield from recall(name)
    logged, own = parse_commits(commits), None if data is None else decode(Prepared, data, name)
    if data is None or own is None or logged is None or not matches(own, whole_offsets, logged):
        return None
    return choose(query, epoch, offsets, commits, [(data, own)])


class _Behind:
    """What stands in the ledger behind the finisher: the oldest epoch with records, and the prepared records that older
    runs have left.
    """

    def __init__(self, oldest: int, left: Iterable[tuple[int, int]]) -> None:
        self.oldest = oldest
        self._left: dict[int, list[str]] = {}
        for epoch, run in left:
            self._left.setdefault(epoch, []).append(prepared_name(epoch, run))

    def removed(self, run: Run, first_kept: int) -> tuple[str, ...]:
        """The names of all records below `first_kept`, which are behind no longer."""
        names: list[str] = []
        for epoch in range(self.oldest, first_kept):
            own = prepared_name(epoch, run.run)
            names += [entry(DECIDED, epoch), entry(DONE, epoch), *self._left.pop(epoch, []), own]
        self.oldest = first_kept
        return tuple(dict.fromkeys(names))


def _look_behind(finished: int) -> Steps[_Behind]:
    oldest = min((yield from numbers(DECIDED)), default=finished + 1)
    return _Behind(oldest, (yield from prepared_entries()))


def _clean_up_behind(query: Query, run: Run, prepared: Prepared, behind: _Behind) -> Steps[None]:
    """Remove the journals of an epoch that was finished now, and the records of older ones that Spark does not keep in
    its log any more.
    """
    epoch = prepared.epoch
    journals = tuple(each.journal.name for each in prepared.committables if each.journal is not None)
    yield CleanThrough(epoch, None if epoch % SWEPT_EVERY == 0 else journals)
    if epoch % query.cleaned_together != 0:
        return
    while (kept := behind.oldest + query.cleaned_together) <= epoch - KEPT_AT_LEAST + 1:
        if (yield from peek(entry(OFFSETS, kept - 1))) is not None:
            return
        yield DeleteAll(behind.removed(run, kept), "gc.record")
