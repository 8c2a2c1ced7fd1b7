"""What a start wants of a savepoint."""

from __future__ import annotations

from enum import Enum

import msgspec


class Scope(Enum):
    """The part of a savepoint that is restored."""

    WHOLE = "whole"
    """The ends of its sources, and its state."""
    OFFSETS_ONLY = "offsets-only"
    """The ends of its sources; its state is empty."""
    STATE_ONLY = "state-only"
    """Its state; every source begins where the program says."""


class Restore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The savepoint from which a start restores the job; `path` is its folder.

    `claim`: the savepoint belongs to the job from now on. The job keeps its id in any folder, and files are linked
    where the disk can. `renamed`: by uid of a query, source, sink or operator in the savepoint, its uid in the program.
    `allow_non_restored_state`: leave behind queries, operators and sources that the program no longer has;
    `allow_non_restored_of`: of these queries alone. `scope`: the part that is restored. `rewind`: an id that the caller
    chooses. The job goes back once for each id, also if visible rows then come a second time.
    """

    path: str
    claim: bool = False
    renamed: dict[str, str] = {}
    allow_non_restored_state: bool = False
    allow_non_restored_of: tuple[str, ...] = ()
    scope: Scope = Scope.WHOLE
    rewind: str = ""

    def allows_to_leave(self, query: str) -> bool:
        """Whether what the savepoint has of a query, or of its sources, may be left behind; by its uid there."""
        return self.allow_non_restored_state or query in self.allow_non_restored_of
