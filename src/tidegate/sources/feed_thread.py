"""A feed fills the ingest log of a source while a job runs; most feeds are a thread of the driver."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Protocol


class Feed(Protocol):
    """What fills an ingest log while a job runs."""

    @property
    def error(self) -> Exception | None:
        """What has ended the feed by itself."""
        ...

    def start(self) -> None:
        """Begin to fill the log; a second call does nothing."""
        ...

    def close(self) -> None:
        """Fill no more. Returns when nothing more is appended; a second call does nothing."""
        ...


class FeedThread(ABC):
    """A `Feed` in a thread. A subclass implements `_feed`, and ends it soon after `_closing` is set."""

    def __init__(self, name: str) -> None:
        """`name`: of the thread."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin to fill the log; a second call does nothing."""
        if self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        """Let `_feed` end, and wait until it has; a second call does nothing."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    @abstractmethod
    def _feed(self) -> None:
        """Fill the log until `_closing` is set. What it raises ends the job."""

    def _failed(self, error: Exception) -> Exception:
        """The error to end the job with, after `_feed` has raised `error`."""
        return error

    def _work(self) -> None:
        try:
            self._feed()
        except Exception as error:  # noqa: BLE001 (kept: it ends the job)
            self.error = self._failed(error)
