"""Names below a generation's folder, also for commands that only read: they do not load the protocol."""

from __future__ import annotations

START = "ledger/start"
PREPARED_START = "ledger/prepared_start"
"""The future *start* of a generation that does not count yet, where folders cannot be renamed."""
FINISHED_THROUGH = "ledger/finished_through"
DONE = "ledger/done"


def entry(folder: str, number: int) -> str:
    """The file name of the record with this number."""
    return f"{folder}/{number}"
