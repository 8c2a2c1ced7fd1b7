"""The last epoch of a drained query. It has no rows and the highest possible watermark, so that every timer fires.

It is written into Spark's log before Spark is started once more. From then on it is an ordinary epoch: after a kill of
the driver, the next start finds it there.
"""

from __future__ import annotations

from tidegate.core.effects import Steps, Tell, get, put_if_absent, set_aside
from tidegate.core.happenings import DueEpochAdded, LogSetAside
from tidegate.core.ledger import COMMITS, DECIDED, OFFSETS, Query, entry, numbers, read_decided
from tidegate.core.spark_log import parse_offsets, with_watermark

END_OF_TIME_MS = 9_000_000_000_000_000
"""A watermark above all realistic timestamps of Spark: in the year 287,169.

Spark counts in microseconds (`watermark * 1000`, up to 2**63), and shifts the watermark by the ranges of a join in
double precision. This value is 7,000 years below the overflow, and is exact in a double.
"""


def add_last_epoch(query: Query, *, closes_windows: bool) -> Steps[bool]:
    """Make the epoch due that ends event time, unless it is done. Returns True if Spark has an epoch to run.

    An undecided epoch in Spark's log comes first. Only while no run of the query is alive. Only a query that
    `closes_windows` has rows that wait for the watermark; for others there is nothing to add. There is one such epoch
    and no more: a timer behind the end of time, or a later watermark, would make epochs due for ever.
    """
    newest = yield from read_decided((yield from _newest_decided()))
    if newest is not None and _is_at_the_end(newest.offsets):
        return False
    if (yield from epoch_waits()):
        return True
    if newest is None or parse_offsets(newest.offsets) is None or not closes_windows:
        return False
    data = with_watermark(newest.offsets, END_OF_TIME_MS)
    if (yield from put_if_absent(entry(OFFSETS, newest.epoch + 1), data, "heal.entry")):
        yield Tell(DueEpochAdded(newest.epoch + 1, END_OF_TIME_MS))
    return True


def epoch_waits() -> Steps[bool]:
    """True if Spark's log holds an epoch behind the newest decided one: the next start runs it, with its input."""
    return (yield from _newest_decided()) + 1 in (yield from numbers(OFFSETS))


def has_come_to_the_end() -> Steps[bool]:
    """True if the last epoch counts: every new row of the query is too late from then on."""
    decided = yield from _newest_decided()
    newest = yield from read_decided(decided)
    if newest is not None and _is_at_the_end(newest.offsets):
        return True
    logged = decided + 1 in (yield from numbers(COMMITS))
    return logged and _is_at_the_end((yield from get(entry(OFFSETS, decided + 1))))


def last_epoch_is_due() -> Steps[bool]:
    """True if the next epoch in Spark's log is the last one, and does not count yet."""
    if (yield from has_come_to_the_end()):
        return False
    return _is_at_the_end((yield from get(entry(OFFSETS, (yield from _newest_decided()) + 1))))


def last_epoch_is_written() -> Steps[bool]:
    """True if the last epoch is in Spark's log, whether it counts or not: then the query has read all of its input."""
    return (yield from has_come_to_the_end()) or (yield from last_epoch_is_due())


def take_back_last_epoch() -> Steps[None]:
    """Rename the last epoch's entry aside if it does not count yet: the next start resumes as if it had not existed.

    Only while no run of the query is alive. What was prepared for it is given up by that start, as for any other.
    """
    if (yield from last_epoch_is_due()):
        name = entry(OFFSETS, (yield from _newest_decided()) + 1)
        kept_as = yield from set_aside(name, "heal.aside")
        if kept_as is not None:
            yield Tell(LogSetAside(name, kept_as))


def _newest_decided() -> Steps[int]:
    return max((yield from numbers(DECIDED)), default=-1)


def _is_at_the_end(data: bytes | None) -> bool:
    offsets = parse_offsets(data)
    return offsets is not None and offsets.watermark_ms >= END_OF_TIME_MS
