"""The time limit of an epoch: `checkpointing.timeout`, and twice as much after each try that was interrupted.

The input of an epoch is fixed by `offsets/N`. With the same limit, an epoch that needs more time would be interrupted
for ever. The limit of each interrupted try is recorded in *overdue/N.R*, so that the next start knows it. No decision
depends on this record: without it, the epoch only has less time.
"""

from __future__ import annotations

from typing import Final

from tidegate.core.effects import Delete, Steps, Tell, get, put_if_absent
from tidegate.core.happenings import EpochGetsMoreTime
from tidegate.core.ledger import (
    OVERDUE,
    Query,
    numbered_by_run,
    overdue_name,
    read_finished,
    stop_if_superseded,
)
from tidegate.core.records import Overdue, Run, decode, encode

GROWTH: Final = 2.0
MOST_TIMES: Final = 64.0
"""So many times `checkpointing.timeout` an epoch gets at most. With the default of 10 min that is more than 10 h."""


def time_after(timeout_seconds: float, tried_seconds: float) -> float:
    """The time limit in seconds after a try that was interrupted.

    At least the timeout, because the setting may be raised.
    """
    return max(timeout_seconds, min(tried_seconds * GROWTH, timeout_seconds * MOST_TIMES))


def note_overdue(query: Query, run: Run, epoch: int, tried_seconds: float) -> Steps[None]:
    """Record in *overdue/N.R* that epoch N was interrupted in this run, and after how many seconds.

    Nothing is written if a record has the same or a higher limit, so the number of records is limited.
    """
    yield from stop_if_superseded(query, run)
    tried = yield from _longest_tries()
    if tried_seconds > tried.get(epoch, 0.0):
        record = Overdue(epoch=epoch, run=run.run, seconds=tried_seconds)
        yield from put_if_absent(overdue_name(epoch, run.run), encode(record), "overdue")


def times_by_epoch(timeout_seconds: float) -> Steps[dict[int, float]]:
    """By epoch, the seconds that it gets; every other epoch has the timeout."""
    times: dict[int, float] = {}
    yield from forget_overdue((yield from read_finished()))  # those that a killed run has left
    for epoch, tried in (yield from _longest_tries()).items():
        times[epoch] = time_after(timeout_seconds, tried)
        yield Tell(EpochGetsMoreTime(epoch=epoch, seconds=times[epoch], tried_seconds=tried))
    return times


def forget_overdue(finished: int) -> Steps[None]:
    """Remove the records of epochs up to the newest finished one."""
    for epoch, run in (yield from numbered_by_run(OVERDUE)):
        if epoch <= finished:
            yield Delete(overdue_name(epoch, run), "gc.record")


def _longest_tries() -> Steps[dict[int, float]]:
    longest: dict[int, float] = {}
    for epoch, run in (yield from numbered_by_run(OVERDUE)):
        name = overdue_name(epoch, run)
        data = yield from get(name)
        if data is not None:
            longest[epoch] = max(longest.get(epoch, 0.0), decode(Overdue, data, name).seconds)
    return longest
