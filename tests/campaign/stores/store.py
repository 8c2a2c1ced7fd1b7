"""What a campaign asks of a store: a server if it has one, the sinks of both queries, and what they have left there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.campaign.places import ROWS, SUMS
from tidegate.sinks.base import TwoPhaseSink

ADDRESS = "CAMPAIGN_STORE_ADDRESS"
"""The environment variable with the address of the store, by which each process reaches it."""

NEWEST = "newest"
"""A table with the last row of each word."""

COLUMNS: Mapping[str, Sequence[str]] = {
    ROWS: ("number", "word", "value", "lucky"),
    SUMS: ("word", "seen", "total", "chain", "last", "lucky"),
    NEWEST: ("word", "seen", "total", "chain", "last", "lucky"),
}


class Striker(Protocol):
    """What strikes the store itself. `title`: what it does, for the report."""

    @property
    def title(self) -> str: ...

    def strike(self) -> None: ...


class Server(Protocol):
    """A server of tests."""

    def crash(self) -> None:
        """End at once, as by a power loss, and come back on the same data."""
        ...


@dataclass(frozen=True, slots=True)
class ServerCrash:
    """Strikes a server."""

    server: Server
    title: str = "server crashed"

    def strike(self) -> None:
        self.server.crash()


class Store(ABC):
    """One store with the sinks of both queries.

    `keyed`: its tables that keep the last row of each word. `points`: failpoints that a job passes because of these
    sinks alone.
    """

    keyed: Sequence[str] = ()
    points: Sequence[str] = ()

    @abstractmethod
    def serve(self, folder: Path) -> AbstractContextManager[Striker]:
        """The store, with its data below `folder` or in a folder of its server. The environment of this process leads
        to it.
        """

    @abstractmethod
    def sinks(self, query: str) -> list[TwoPhaseSink]:
        """The sinks of a query. Those that replace rows by key need a key that no two rows of the query have, except
        for the `keyed` tables.
        """

    @abstractmethod
    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """What a table shows: its `COLUMNS`."""

    @abstractmethod
    def left_over(self) -> dict[str, list[str]]:
        """What a job that has ended must not leave there, by kind."""


def names_in(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """The first column of rows, as texts."""
    return [str(name) for name, *_ in rows]
