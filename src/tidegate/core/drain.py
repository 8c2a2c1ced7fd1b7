"""The last epoch of a drained query: no rows, and the watermark at the end of time, so that nothing waits any more.

It is written into Spark's log before Spark is started once more, and then it is an epoch as any other: a driver that
is killed on the way leaves it to the next start, which finds it there.
"""

from __future__ import annotations

from tidegate.core.effects import Steps, Tell, put_if_absent
from tidegate.core.happenings import DueEpochAdded
from tidegate.core.ledger import DECIDED, OFFSETS, Query, entry, numbers, read_decided
from tidegate.core.spark_log import parse_offsets, with_watermark

END_OF_TIME_MS = 9_000_000_000_000_000
"""The watermark behind which no timestamp of Spark's is thought to be: in the year 287,169.

Spark counts in microseconds (`watermark * 1000`, up to 2**63), shifts the watermark by the ranges of a join, and there
computes in double precision: this leaves 7,000 years on the way to the overflow, and is exact in a double.
"""


def add_last_epoch(query: Query, *, closes_windows: bool) -> Steps[bool]:
    """Have an epoch due that ends event time, unless it is done; whether Spark has an epoch to run.

    An undecided one in Spark's log comes first. Only while no run of the query is alive. A query that `closes_windows`
    waits for the watermark with something; for any other there is nothing to add.
    """
    if (yield from epoch_waits()):
        return True
    newest = yield from read_decided(max((yield from numbers(DECIDED)), default=-1))
    offsets = None if newest is None else parse_offsets(newest.offsets)
    if newest is None or offsets is None or offsets.watermark_ms >= END_OF_TIME_MS or not closes_windows:
        return False
    data = with_watermark(newest.offsets, END_OF_TIME_MS)
    if (yield from put_if_absent(entry(OFFSETS, newest.epoch + 1), data, "heal.entry")):
        yield Tell(DueEpochAdded(newest.epoch + 1, END_OF_TIME_MS))
    return True


def epoch_waits() -> Steps[bool]:
    """Whether Spark's log holds an epoch behind the newest decided one: the next start runs it, with its input."""
    decided = max((yield from numbers(DECIDED)), default=-1)
    return decided + 1 in (yield from numbers(OFFSETS))
