"""Names below a generation's folder that also those read who only look: nothing of the protocol is loaded for them."""

from __future__ import annotations

START = "ledger/start"
FINISHED_THROUGH = "ledger/finished_through"
DONE = "ledger/done"
