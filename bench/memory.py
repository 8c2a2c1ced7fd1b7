"""Whether a driver that runs for long keeps its size: resident memory, JVM heap and files at epoch 300 and 1,500.

The session is the one that a job makes for itself. Memory is taken after a collection in both processes, as the
smallest of some looks, because epochs go on meanwhile; in the JVM it is what the collector itself says was left.
"""

from __future__ import annotations

import gc
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.epochs import CASES as EPOCH_CASES
from bench.epochs import job_of
from bench.figures import Better, Figure
from bench.seen import Seen, told
from tidegate.spark.session import open_session

EPOCHS = (300, 1500)
_QUICK_EPOCHS = (30, 90)
_LOOKS = 5
_GOAL_PERCENT = 5.0
_GOAL_FILES = 5.0
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Size:
    """The driver and its ledger at one moment; memory in MiB."""

    python: float
    heap: float
    ledger_files: int
    journal_files: int


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """One run, whatever `rounds` says: it takes minutes, and what grows shows in one."""
    del rounds
    case, (early, late) = EPOCH_CASES["epoch-stateful"], _QUICK_EPOCHS if quick else EPOCHS
    session = open_session("bench")
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
                sizes.append(_size(session, ledger))
        finally:
            handle.stop()
            session.stop()
    return _figures(sizes[0], sizes[1], early, late)


def _figures(first: Size, last: Size, early: int, late: int) -> list[Figure]:
    between = f"from epoch {early} to {late:,}"
    kept = [size.ledger_files + size.journal_files for size in (first, last)]
    return [
        _growth("memory-python", f"growth of the Python driver's resident size {between}", first.python, last.python),
        _growth("memory-jvm", f"growth of the JVM's heap after a collection {between}", first.heap, last.heap),
        Figure(
            name="ledger-files",
            what=f"files more in ledger and journal {between}",
            value=float(kept[1] - kept[0]),
            unit="files",
            better=Better.LOWER,
            goal=_GOAL_FILES,
            samples={"early": [float(kept[0])], "late": [float(kept[1])]},
        ),
    ]


def _growth(name: str, what: str, first: float, last: float) -> Figure:
    return Figure(
        name=name,
        what=what,
        value=round((last / first - 1) * 100, 1),
        unit="%",
        better=Better.LOWER,
        goal=_GOAL_PERCENT,
        samples={"early MiB": [round(first, 1)], "late MiB": [round(last, 1)]},
    )


def _size(session: SparkSession, ledger: Path) -> Size:
    jvm: Any = session.sparkContext._jvm
    looks = [_look(jvm) for _ in range(_LOOKS)]
    files = [path for path in ledger.rglob("*") if path.is_file()]
    journal = [path for path in files if path.relative_to(ledger).parts[0] == "journal"]
    return Size(
        python=min(python for python, _ in looks),
        heap=min(heap for _, heap in looks),
        ledger_files=len(files) - len(journal),
        journal_files=len(journal),
    )


def _look(jvm: Any) -> tuple[float, float]:
    """Resident size of this process, and what a collection has left in its JVM's heap, in MiB."""
    gc.collect()
    jvm.java.lang.System.gc()
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    left = [pool.getCollectionUsage() for pool in pools if pool.getType().name() == "HEAP"]
    status = Path("/proc/self/status").read_text()
    resident = re.search(r"VmRSS:\s*(\d+) kB", status)
    heap_bytes = sum(usage.getUsed() for usage in left if usage is not None)
    return int(resident[1]) / 1024 if resident else 0.0, heap_bytes / _MIB
