"""How the commit phase of a sink reaches its database: what a protocol needs, and each client does in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Generic, Protocol, TypeVar

from tidegate.core.records import Committable, Position, SinkIdentity
from tidegate.sinks.standing import Standing


class DatabaseLedger(Protocol):
    """The ledger of a database, inside one connection: the epochs, and proofs of single transactions."""

    def lock(self, identity: SinkIdentity) -> None: ...

    def newest_of(self, identity: SinkIdentity) -> Position | None: ...

    def standing_of(self, committables: Sequence[Committable]) -> Standing: ...

    def standing_of_one(self, committable: Committable) -> Standing: ...

    def is_proved(self, committable: Committable) -> bool: ...

    def touch(self, identity: SinkIdentity, epoch: int) -> None: ...


LedgerT = TypeVar("LedgerT", bound=DatabaseLedger)
SessionT = TypeVar("SessionT")


class DatabaseAccess(ABC, Generic[SessionT, LedgerT]):
    """The table of a sink and its ledger, through the client of its database."""

    errors: ClassVar[type[Exception]]
    """The errors of the client."""
    remedy: ClassVar[str]
    """What to correct in a table that refuses rows after their epoch was decided."""

    @property
    @abstractmethod
    def table(self) -> str:
        """The table of the sink."""

    @property
    @abstractmethod
    def server(self) -> object:
        """The server, as errors name it."""

    @abstractmethod
    def connected(self) -> AbstractContextManager[SessionT]:
        """A new connection. Raises `errors`."""

    @abstractmethod
    def transaction(self, connection: SessionT) -> AbstractContextManager[None]:
        """One transaction that is on the disk when it has committed."""

    @abstractmethod
    def ledger(self, connection: SessionT) -> LedgerT:
        """The ledger beside the table."""

    @abstractmethod
    def record(self, ledger: LedgerT, committables: Sequence[Committable]) -> None:
        """Write the ledger's row of the epoch inside the open transaction."""

    @abstractmethod
    def told(self, error: Exception) -> str:
        """An error of the client in words."""

    def found(self, error: Exception) -> str:
        """An error of the client in words, with the server."""
        return f"{self.server}: {self.told(error)}"
