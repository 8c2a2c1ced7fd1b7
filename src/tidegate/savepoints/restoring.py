"""The request of a start to restore a savepoint."""

from __future__ import annotations

from enum import Enum

import msgspec


class Scope(Enum):
    """The part of a savepoint that is restored."""

    WHOLE = "whole"
    """The positions of its sources, and its state."""
    OFFSETS_ONLY = "offsets-only"
    """The positions of its sources; its state is empty."""
    STATE_ONLY = "state-only"
    """Its state; every source begins where the program sets it."""


class Restore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The savepoint from which a start restores the job; `path` is its folder.

    `claim`: the savepoint belongs to the job from now on. The job keeps its id in any folder, and files are linked if
    the disk supports it. `renamed`: by uid of a query, source, sink or operator in the savepoint, its uid in the
    program. `allow_non_restored_state`: leave behind queries, operators and sources that the program no longer has.
    `allow_non_restored_of`: the same for these queries only. `scope`: the part that is restored. `rewind`: an id that
    the caller chooses; the job goes back once for each id, also if visible rows are then repeated.
    """

    path: str
    claim: bool = False
    renamed: dict[str, str] = {}
    allow_non_restored_state: bool = False
    allow_non_restored_of: tuple[str, ...] = ()
    scope: Scope = Scope.WHOLE
    rewind: str = ""

    def allows_to_leave(self, query: str) -> bool:
        """True if the savepoint's state of a query, or its sources, may be left behind; by its uid there."""
        return self.allow_non_restored_state or query in self.allow_non_restored_of
