"""The terminal output of `tidegate run` beside its log lines: nothing, or the live view.

The code of the live view is loaded only with a terminal: a job in the background does not wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from types import TracebackType

from tidegate.operate import Beat, BeatReader, Folder


class Restarts(Enum):
    """The part that restarts after a failure."""

    DRIVER = "the driver"
    QUERY = "a query in it"


class View:
    """Receives the supervisor's events for the terminal. This class shows only the answer to an interrupt."""

    environment: Mapping[str, str] = {}
    """Additional environment variables of a driver."""

    def __init__(self) -> None:
        self._read: Callable[[], Beat | None] = _nothing

    def __enter__(self) -> View:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None

    def declared(self, folder: Folder) -> None:
        """The program has named its job, which has this folder."""
        self._read = BeatReader(folder).read

    def failed(self, why: str, restart_at: float, what: Restarts) -> None:
        """The driver or one of its queries has ended, and restarts at `restart_at` (seconds since 1970)."""

    def stopping(self) -> None:
        """A stop was requested; at a terminal, by Ctrl-C. Without a terminal the log reports it."""
        if sys.stderr.isatty():
            self._answer()

    def _answer(self) -> None:
        beat = None
        with suppress(OSError):  # the storage is away: the answer does not name the epoch then
            beat = self._read()
        print(stop_message(beat), file=sys.stderr, flush=True)


def stop_message(beat: Beat | None) -> str:
    """The answer to the first Ctrl-C."""
    under_way = [query for query in (() if beat is None else beat.queries) if query.epoch > query.finished]
    waits = " and ".join(f"epoch {query.epoch} of {query.uid}" for query in under_way)
    return f"stopping: {f'waits for {waits}' if waits else 'no epoch is running'}; Ctrl-C again ends at once"


def _nothing() -> Beat | None:
    """No beat, before the job is known."""
    return None
