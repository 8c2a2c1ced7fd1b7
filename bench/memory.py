"""Whether a driver that runs for long keeps its size: resident memory, JVM heap and files at epoch 300 and 1,500.

The session is the one that a job makes for itself.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.epochs import CASES as EPOCH_CASES
from bench.epochs import job_of
from bench.figures import Figure
from bench.growth import Size, driver_growth, size_of
from bench.seen import Seen, told
from tidegate.settings.reading import read_settings
from tidegate.spark.session import open_session

EPOCHS = (300, 1500)
_QUICK_EPOCHS = (30, 90)


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """One run, whatever `rounds` says: it takes minutes, and what grows shows in one."""
    del rounds
    case, (early, late) = EPOCH_CASES["epoch-stateful"], _QUICK_EPOCHS if quick else EPOCHS
    session = open_session("bench", read_settings({}, {}))
    session.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        place = Path(folder)
        ledger = place / "checkpoints" / "bench" / "queries" / "query" / "g1" / "ledger"
        sizes: list[Size] = []
        handle = job_of(case, session, place).start()
        try:
            for epoch in (early, late):
                seen = Seen.of_job(place / "checkpoints", epoch)
                with told(seen):
                    seen.wait()
                sizes.append(size_of(session, ledger))
        finally:
            handle.stop()
            session.stop()
    return driver_growth("", sizes[0], sizes[1], f"from epoch {early} to {late:,}")
