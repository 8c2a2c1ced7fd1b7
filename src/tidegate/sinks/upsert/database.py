"""What an upsert sink needs of a database. One class for each database implements it.

Each of them holds the plain sink of its database (`SQLiteSink`, `PostgresSink`, `MySQLSink`) for all that both have in
common: the settings of the server, the checks, the table, the rules for values, the ledger.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar

from tidegate.core.errors import TidegateError
from tidegate.core.records import Answer, Attempt, Committable, SinkIdentity
from tidegate.sinks.base import SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.stamps import place_of_run
from tidegate.sinks.upsert.fences import Fences, short_owner_of
from tidegate.sinks.upsert.session import UpsertSession
from tidegate.sinks.upsert.stamps_table import StampsTable

FENCE_SECONDS = 30.0
"""How long raising a fence waits for the tasks of earlier runs, which it ends meanwhile."""
TASK_LOCK_SECONDS = 120
"""How long a task waits for a lock: longer than a server lets a paused one keep it (60 seconds)."""

_LOG = logging.getLogger("tidegate")


class UpsertDatabase(ABC):
    """A table of one database."""

    word: ClassVar[str]
    """The name of the database in the description of a sink."""

    def __init__(self, table: str, key: tuple[str, ...], deleted: str | None) -> None:
        self.table = table
        self.key = key
        self.deleted = deleted

    # --- what differs --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def inner(self) -> TwoPhaseSink:
        """The plain sink."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The database in words."""

    @abstractmethod
    def connected(self) -> AbstractContextManager[UpsertSession]:
        """A session. Raises the errors of the client."""

    @abstractmethod
    def reached(self) -> AbstractContextManager[UpsertSession]:
        """A session. An error of the client ends the run: SINK_UNUSABLE."""

    @abstractmethod
    def is_error(self, error: Exception) -> bool:
        """True for an error of the client."""

    @abstractmethod
    def told(self, error: Exception) -> str:
        """An error of the client in words, without secrets."""

    @abstractmethod
    def create_tables(self, session: UpsertSession) -> None:
        """Create the tables beside the target if they are missing. The target is there."""

    @abstractmethod
    def begin(self, attempt: Attempt) -> Transaction: ...

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]: ...

    def plan_of(self, plan: SinkPlan) -> SinkPlan:
        """What the plain sink checks."""
        return plan

    def violations(self, plan: SinkPlan) -> Sequence[TidegateError]:
        """What of this database the plain sink does not check."""
        return ()

    def is_of_a_lock(self, error: Exception) -> bool:
        """True if a lock was not to be had in time, and its holder can be ended."""
        return False

    def end_writers(self, session: UpsertSession, owner: str, before: str) -> None:
        """End the connections of tasks whose runs have places `before` this one."""

    def hurry(self, session: UpsertSession) -> None:
        """Let the open transaction wait for a lock for a second only."""

    @property
    def is_there(self) -> bool:
        """False if there is no database yet."""
        return True

    # --- what all have in common ---------------------------------------------------------------------------

    @property
    def where(self) -> str:
        return f"sink {self.inner.uid!r}: table {self.table!r}, {self.place}"

    def stamps(self, session: UpsertSession) -> StampsTable:
        return StampsTable(session, self.table, self.key)

    def begin_run(self, identity: SinkIdentity, run: int, run_token: str) -> str | None:
        """Raise the fence, and end the tasks of earlier runs that keep it from being raised."""
        end = time.monotonic() + FENCE_SECONDS
        with self.reached() as session:
            while True:
                try:
                    with session.transaction():
                        self.hurry(session)
                        return Fences(session).begin_run(identity, run, run_token)
                except Exception as error:
                    if not self.is_of_a_lock(error) or time.monotonic() > end:
                        raise
                self.end_writers(session, short_owner_of(identity), place_of_run(identity.generation, run))

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        with self._or_later("stamps of deleted keys stay"), self.connected() as session, session.transaction():
            Fences(session).clean(identity, finished_through)
            if self.deleted is not None:
                self.stamps(session).clean(identity, finished_through)

    def forget(self, identity: SinkIdentity) -> None:
        if not self.is_there:
            return
        with self.reached() as session:
            fences = Fences(session)
            if fences.is_there:
                with session.transaction():
                    fences.forget(identity)

    @contextmanager
    def _or_later(self, what: str) -> Generator[None]:
        try:
            yield
        except Exception as error:
            if not self.is_error(error):
                raise
            _LOG.warning("sink %s: %s for now: %s", self.inner.uid, what, self.told(error))
