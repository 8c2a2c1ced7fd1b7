"""The two ways of a PostgreSQL sink, and which of them wrote a committable.

A job may change between them at any start. So the driver serves both, whatever the program says now: each committable
tells by its handle how it was written.
"""

from __future__ import annotations

from enum import Enum

from tidegate.core.records import Committable

STAGE = "stage"
"""In the handle of a staged committable: the name of its staging table."""
GID = "gid"
"""In the handle of a prepared committable: the identifier of its prepared transaction."""


class CommitProtocol(Enum):
    """How rows wait for the decision of their epoch."""

    STAGED = "staged"
    """In a staging table for each task. One transaction of the driver takes them."""
    PREPARED = "prepared"
    """In the target itself, each task's in a prepared transaction (PREPARE TRANSACTION)."""


def protocol_of(committable: Committable) -> CommitProtocol:
    return CommitProtocol.PREPARED if GID in committable.handle else CommitProtocol.STAGED
