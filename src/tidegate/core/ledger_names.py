"""Names below a generation's folder, also for commands that only read: they do not load the protocol."""

from __future__ import annotations

START = "ledger/start"
FINISHED_THROUGH = "ledger/finished_through"
DONE = "ledger/done"
