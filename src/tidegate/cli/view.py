"""What `tidegate run` shows in a terminal beside the lines of its log: nothing, or the live view.

What draws the live view is loaded where there is a terminal to draw in: in the background a job does not wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path
from types import TracebackType

from tidegate.operate import Beat, read_beat


class Restarts(Enum):
    """What starts again after a failure."""

    DRIVER = "the driver"
    QUERY = "a query in it"


class View:
    """What a supervisor tells the user's terminal. This one shows nothing but the answer to an interrupt."""

    environment: Mapping[str, str] = {}
    """What a driver's environment needs beside its own."""

    def __init__(self) -> None:
        self._read: Callable[[], Beat | None] = _nothing

    def __enter__(self) -> View:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None

    def declared(self, folder: Path) -> None:
        """The program has named its job, which has this folder."""
        self._read = partial(read_beat, folder)

    def failed(self, why: str, restart_at: float, what: Restarts) -> None:
        """The driver has ended, or a query in it, and starts again at `restart_at` (seconds since 1970)."""

    def stopping(self) -> None:
        """The job was asked to stop; where somebody sits at a terminal, with Ctrl-C. Elsewhere the log says it."""
        if sys.stderr.isatty():
            self._answer()

    def _answer(self) -> None:
        beat = None
        with suppress(OSError):  # the storage is away: the answer then says nothing of epochs
            beat = self._read()
        print(stop_message(beat), file=sys.stderr, flush=True)


def stop_message(beat: Beat | None) -> str:
    """What a first Ctrl-C is answered with."""
    under_way = [query for query in (() if beat is None else beat.queries) if query.epoch > query.finished]
    waits = " and ".join(f"epoch {query.epoch} of {query.uid}" for query in under_way)
    return f"stopping: {f'waits for {waits}' if waits else 'nothing is under way'}; Ctrl-C again ends at once"


def _nothing() -> Beat | None:
    """No beat, before a job is known."""
    return None
