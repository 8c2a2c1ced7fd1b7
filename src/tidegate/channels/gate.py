"""The gate of a channel: while a checkpoint is under way, no epoch of a reader passes the barrier of the channel."""

from __future__ import annotations

from threading import Lock

from tidegate.core.barriers import held_at
from tidegate.core.channel_parts import ChannelPosition


class ChannelGate:
    """Holds the readers of one channel at its barrier, in this process.

    A reader asks for the end of the channel first, and for the gate second. The writer shuts the gate before its next
    epoch begins. So a reader that sees rows behind the barrier also sees the barrier.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._barrier: ChannelPosition | None = None
        self._passing: frozenset[str] = frozenset()

    def shut(self, barrier: ChannelPosition, passing: frozenset[str] = frozenset()) -> None:
        """Hold every reader at this barrier from now on, except those in `passing`: the uids of their queries."""
        with self._lock:
            self._barrier, self._passing = barrier, passing

    def let_pass(self, reader: str) -> None:
        """A reader has taken part in the checkpoint. `reader`: the uid of the query."""
        with self._lock:
            self._passing |= {reader}

    def open(self) -> None:
        """The checkpoint has ended: nothing is held."""
        with self._lock:
            self._barrier = None

    def bounded(self, reader: str, end: ChannelPosition) -> ChannelPosition:
        """The end of a reader's next epoch, given the end of the channel."""
        with self._lock:
            barrier = None if reader in self._passing else self._barrier
        return end if barrier is None else held_at(barrier, end)
