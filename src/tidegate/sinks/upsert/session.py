"""A connection to one of the databases, and where their SQL differs: what fences and stamps are written with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

RESERVED = "_tidegate_"
"""Names that begin so are tidegate's own."""


class UpsertSession(ABC):
    """An open connection. Its errors are those of the database's client."""

    shared: ClassVar[str] = ""
    """Behind a SELECT: others may read the rows and not change them, until the transaction ends."""
    alone: ClassVar[str] = ""
    """Behind a SELECT: others may not lock the rows."""
    unless_there: ClassVar[str] = "ON CONFLICT DO NOTHING"
    """Behind an INSERT of a fence: nothing is written, and no error raised, for a row that is there."""
    word: ClassVar[str] = "TEXT"
    """The type of a short text of ASCII characters, in a key, compared by its bytes."""
    text: ClassVar[str] = "TEXT"
    """The type of any text."""
    end_of_table: ClassVar[str] = ""
    """Behind the columns of a CREATE TABLE."""

    @abstractmethod
    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement, if it has any. `values` stand for `%s` in it."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """One transaction, rolled back by an error."""

    @abstractmethod
    def own(self, table: str) -> str:
        """A table beside the target, in SQL."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A name in SQL."""

    @abstractmethod
    def has(self, table: str) -> bool:
        """True if the table is there."""

    def all_of(self, names: Sequence[str], of: str = "") -> str:
        """Names in SQL with commas between them. `of`: the alias of their table."""
        return ", ".join(f"{of}{self.quoted(name)}" for name in names)
