"""How long transactions stay open: a driver looks after those of a sink while its epochs run."""

from __future__ import annotations

import logging
from contextvars import copy_context
from functools import partial

from tidegate.core.errors import TidegateError
from tidegate.core.records import SinkIdentity
from tidegate.sinks.kafka.halftime import HalfTime
from tidegate.sinks.orphans import OrphanWatch, WatchedSink

_LOG = logging.getLogger("tidegate")


class OpenWatch(OrphanWatch):
    """Also warns when half of the transactions' timeout has passed."""

    def __init__(self) -> None:
        super().__init__()
        self._half_time = HalfTime()

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
