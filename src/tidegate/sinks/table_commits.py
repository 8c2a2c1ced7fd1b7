"""A commit of a lake's table beside other writers. If another commit was faster, it looks again and tries again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.core.errors import TidegateError
from tidegate.core.records import Answer, Committable, Outcome
from tidegate.sinks.base import answer_all
from tidegate.sinks.marks import is_of_storage

TRIES = 20
"""How often a commit looks again, before it answers RETRY, because another writer was faster."""

TableT = TypeVar("TableT")


@dataclass(frozen=True, slots=True)
class TableCommits(Generic[TableT]):
    """How a sink reaches its table.

    `place`: the table, as answers name it. `read`: its newest state, or None if there is none. `overtaken`: the error
    of the library if another commit was faster. `errors`: all of its errors. `told`: an error in words.
    """

    place: str
    read: Callable[[], TableT | None]
    overtaken: type[Exception]
    errors: tuple[type[Exception], ...]
    told: Callable[[Exception], str]

    def until_alone(
        self, committables: Sequence[Committable], act: Callable[[TableT], Sequence[Answer]]
    ) -> Sequence[Answer]:
        """The answers of `act` with the newest state of the table. Another commit in between is no answer.

        What the table or its storage refuses, and what a lost answer leaves open, is looked at by the next call.
        """
        overtaken = ""
        try:
            for _ in range(TRIES):
                table = self.read()
                if table is None:
                    return self.later(committables, "there is no table any more")
                try:
                    return act(table)
                except self.overtaken as error:
                    overtaken = self.told(error)
        except self.errors as error:
            return self.later(committables, self.told(error))
        except TidegateError as error:
            if not is_of_storage(error):
                raise
            return self.later(committables, f"{error.where}: {error.found}")
        return self.later(committables, f"{TRIES} commits failed: {overtaken}")

    def later(self, committables: Sequence[Committable], detail: str) -> Sequence[Answer]:
        return answer_all(committables, Outcome.RETRY, f"{self.place}: {detail}")

    def unknown(self, committables: Sequence[Committable], detail: str) -> Sequence[Answer]:
        return answer_all(committables, Outcome.UNKNOWN, f"{self.place}: {detail}")
