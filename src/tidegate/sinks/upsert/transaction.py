"""What the pre-commit of a task does in one transaction of the database: fence, stamps, rows, mark.

First the stamps are written, each only over an earlier one. The database keeps a stamp locked that it
has looked at, until the transaction ends: so what holds for a stamp then holds for its row. Then the rows whose stamps
stand are written, and the others are left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tidegate.core.errors import TidegateError
from tidegate.core.records import Attempt
from tidegate.core.redaction import SECRETS
from tidegate.core.telling import shortened
from tidegate.sinks.late_writes import LateWrites
from tidegate.sinks.stamps import place_of_attempt
from tidegate.sinks.upsert.fences import Fences, short_owner_of
from tidegate.sinks.upsert.stamps_table import StampsTable

_KEY_AT_MOST = 200


class UpsertTransaction(ABC):
    """Takes the staged rows of one attempt into the table. Each database has its statements.

    `where`: sink and table, for errors.
    """

    def __init__(self, stamps: StampsTable, attempt: Attempt, where: str) -> None:
        self._stamps = stamps
        self._session = stamps.session
        self._attempt = attempt
        self._owner = short_owner_of(attempt.sink)
        self._place = place_of_attempt(attempt)
        self._late = LateWrites(attempt, where)

    def take(self, digest: str) -> None:
        """Take all rows, and mark them. Raises an error of the client, or the refusal of rows that come too late."""
        fences = Fences(self._session)
        fences.hold(self._attempt, self._late)
        self._write_stamps()
        stranger = self._stamps.stranger(self._staged(), self._owner)
        if stranger is not None and stranger[2]:
            self._stamps.drop_forgotten()
            self._write_stamps()
            stranger = self._stamps.stranger(self._staged(), self._owner)
        if stranger is not None:
            raise self._owned(*stranger)
        self._write_rows()
        fences.mark(self._attempt, digest)

    @abstractmethod
    def _write_stamps(self) -> None:
        """Write the stamp of each row, unless a later one stands. The owner of a stamp never changes: so one of another
        owner is found afterwards, and all is rolled back.
        """

    @abstractmethod
    def _staged(self) -> str:
        """The rows of the attempt, as they stand behind FROM, with the alias `staged` and the names of the key."""

    @abstractmethod
    def _write_rows(self) -> None:
        """Write or delete the rows whose stamps stand."""

    def _owned(self, owner: str, key: dict[str, Any], is_forgotten: bool) -> TidegateError:
        told = shortened(SECRETS.hide(str(key)), _KEY_AT_MOST)
        return self._late.owned(f"key {told}", owner, "give this sink another table=")
