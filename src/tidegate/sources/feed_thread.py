"""The interface `Feed`: it fills the ingest log of a source while a job runs. Most feeds are a thread of the driver."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Protocol


class Feed(Protocol):
    """Fills an ingest log while a job runs."""

    @property
    def error(self) -> Exception | None:
        """The error that ended the feed; None while it runs, and if it was closed."""
        ...

    def start(self) -> None:
        """Begin to fill the log. A second call does nothing."""
        ...

    def close(self) -> None:
        """Stop filling the log. When it returns, nothing more is written. A second call does nothing."""
        ...


class FeedThread(ABC):
    """A `Feed` that runs in a thread. A subclass implements `_feed`, which must return soon after `_closing` is set."""

    def __init__(self, name: str) -> None:
        """`name`: the name of the thread."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.error: Exception | None = None

    def start(self) -> None:
        """Start the thread. A second call does nothing."""
        if self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        """Tell `_feed` to end, and wait until it has ended. A second call does nothing."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    @abstractmethod
    def _feed(self) -> None:
        """Fill the log until `_closing` is set. An exception ends the job."""

    def _failed(self, error: Exception) -> Exception:
        """The error that ends the job after `_feed` has raised `error`."""
        return error

    def _work(self) -> None:
        try:
            self._feed()
        except Exception as error:  # noqa: BLE001 (kept: it ends the job)
            self.error = self._failed(error)
