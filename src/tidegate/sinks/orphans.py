"""Transactions that stay open in a target while the epochs of a query run: a driver looks for them, and aborts them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from tidegate.core.records import SinkIdentity

LOOK_FOR_ORPHANS_SECONDS = 2.0


class WatchedSink(Protocol):
    """A sink that lists and aborts its open transactions."""

    uid: str

    def pending(self, identity: SinkIdentity) -> Sequence[str]: ...

    def abort(self, transactions: Sequence[str]) -> None: ...


class OrphanWatch:
    """Aborts orphans at the start of an epoch, for a sink whose prepared rows have their place.

    The copy that goes to the tasks is a new object, which has seen nothing.
    """

    def __init__(self) -> None:
        self._open_before = frozenset[str]()
        self._look_at = 0.0

    def __reduce__(self) -> tuple[type[OrphanWatch], tuple[()]]:
        return type(self), ()

    def abort_orphans(self, sink: WatchedSink, identity: SinkIdentity) -> None:
        """At the start of an epoch no transaction of this sink may be open: every older epoch is finished.

        A transaction that was open at an earlier start, too, was left by a losing attempt or by a dead executor. It
        holds up others: readers, or vacuum. So this check runs every few seconds.
        """
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_FOR_ORPHANS_SECONDS
        open_now = frozenset(sink.pending(identity))
        if stayed := sorted(open_now & self._open_before):
            sink.abort(stayed)
        self._open_before = open_now
