"""The two ways of a MySQL sink, and which of them wrote a committable.

A job may change between them at any start. So the driver serves both, whatever the program says now: each committable
tells by its handle how it was written.
"""

from __future__ import annotations

from enum import Enum

from tidegate.core.records import Committable

STAGE = "stage"
"""In the handle of a staged committable: the name of its staging table."""
GID = "gid"
"""In the handle of a committable of XA: the identifier of its prepared branch."""


class MySQLProtocol(Enum):
    """How rows wait for the decision of their epoch."""

    STAGED = "staged"
    """In a staging table for each task. One transaction of the driver takes them."""
    XA = "xa"
    """In the target itself, each task's in a prepared branch (XA PREPARE)."""


def protocol_of(committable: Committable) -> MySQLProtocol:
    return MySQLProtocol.XA if GID in committable.handle else MySQLProtocol.STAGED
