"""What stays open: a driver looks for the open transactions of a sink while its epochs run."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextvars import copy_context
from functools import partial
from typing import Protocol

from tidegate.core.errors import TidegateError
from tidegate.core.records import SinkIdentity
from tidegate.sinks.kafka.halftime import HalfTime

LOOK_FOR_ORPHANS_SECONDS = 2.0

_LOG = logging.getLogger("tidegate")


class WatchedSink(Protocol):
    """A sink that lists and aborts its open transactions."""

    uid: str

    def pending(self, identity: SinkIdentity) -> Sequence[str]: ...

    def abort(self, transactions: Sequence[str]) -> None: ...


class OpenWatch:
    """Aborts orphans at the start of an epoch, and warns when half of the transactions' timeout has passed.

    The copy that goes to the tasks is a new object, which watches nothing.
    """

    def __init__(self) -> None:
        self._open_before = frozenset[str]()
        self._look_at = 0.0
        self._half_time = HalfTime()

    def __reduce__(self) -> tuple[type[OpenWatch], tuple[()]]:
        return OpenWatch, ()

    def abort_orphans(self, sink: WatchedSink, identity: SinkIdentity) -> None:
        """At the start of an epoch no transaction of this sink may be open: every older epoch is finished.

        A transaction that was open at an earlier start, too, was left by a losing attempt or by a dead executor.
        Readers wait behind it. So this check runs every few seconds.
        """
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_FOR_ORPHANS_SECONDS
        open_now = frozenset(sink.pending(identity))
        if stayed := sorted(open_now & self._open_before):
            sink.abort(stayed)
        self._open_before = open_now

    def begin_epoch(self, sink: WatchedSink, identity: SinkIdentity, finished_through: int, timeout_ms: int) -> None:
        """The epoch after `finished_through` begins. Its transactions may stay open for `timeout_ms`."""
        warn = partial(_warn, sink, identity, finished_through, timeout_ms / 1000)
        self._half_time.begin(timeout_ms / 2000, partial(copy_context().run, warn))

    def end_epoch(self) -> None:
        """The epoch's transactions are committed."""
        self._half_time.end()


def _warn(sink: WatchedSink, identity: SinkIdentity, finished_through: int, timeout_seconds: float) -> None:
    """Half of the timeout has passed since an epoch began, and its transactions are not yet reported as ended."""
    try:
        still_open = len(sink.pending(identity))
    except TidegateError as error:
        found = f"the open transactions cannot be listed ({error.found})"
    else:
        if still_open == 0:
            return
        found = f"{still_open} transactions are still open"
    _LOG.warning(
        "sink %s, the epoch after %d: %s %g s after it began, half of transaction_timeout (%g s). Readers wait"
        " behind them; at the timeout the brokers abort them, and their rows are written once more. Let epochs take"
        " less (limits of the source), or give a longer transaction_timeout=",
        sink.uid,
        finished_through,
        found,
        timeout_seconds / 2,
        timeout_seconds,
        extra={"event": "TransactionsOpenForLong", "epoch": finished_through + 1},
    )
