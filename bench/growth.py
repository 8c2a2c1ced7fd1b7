"""How a driver and what it leaves behind grow between two epochs.

Memory is taken after a collection in both processes, as the smallest of some looks, because epochs run meanwhile; in
the JVM it is what the collector itself says was left. Workers are not told to collect: theirs is the largest resident
size of any of them.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from bench.figures import Better, Figure
from tidegate.spark.worker_daemon import MODULE

_LOOKS = 5
_GOAL_PERCENT = 5.0
_GOAL_FILES = 5.0
_MIB = 2**20
_KIB_PER_MIB = 1024
_DAEMONS = (MODULE.encode(), b"pyspark.daemon")
"""Of a session that tidegate has opened, and of any other one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Size:
    """The driver, its largest worker (0: there is none) and its ledger at one moment; memory in MiB."""

    python: float
    heap: float
    worker: float
    ledger_files: int
    journal_files: int


def size_of(session: SparkSession, ledger: Path) -> Size:
    """How large all is now."""
    jvm: Any = session.sparkContext._jvm
    looks = [_look(jvm) for _ in range(_LOOKS)]
    files = [path for path in ledger.rglob("*") if path.is_file()]
    journal = [path for path in files if path.relative_to(ledger).parts[0] == "journal"]
    return Size(
        python=min(python for python, _, _ in looks),
        heap=min(heap for _, heap, _ in looks),
        worker=min(worker for _, _, worker in looks),
        ledger_files=len(files) - len(journal),
        journal_files=len(journal),
    )


def driver_growth(prefix: str, first: Size, last: Size, between: str) -> list[Figure]:
    """Three figures: resident size, heap, files. `between` says from where to where: `from epoch 30 to 90`."""
    kept = [size.ledger_files + size.journal_files for size in (first, last)]
    return [
        growth(
            f"{prefix}memory-python",
            f"growth of the Python driver's resident size {between}",
            first.python,
            last.python,
        ),
        growth(
            f"{prefix}memory-jvm",
            f"growth of the JVM's heap after a collection {between}",
            first.heap,
            last.heap,
        ),
        Figure(
            name=f"{prefix}ledger-files",
            what=f"files more in ledger and journal {between}",
            value=float(kept[1] - kept[0]),
            unit="files",
            better=Better.LOWER,
            goal=_GOAL_FILES,
            samples={"early": [float(kept[0])], "late": [float(kept[1])]},
        ),
    ]


def worker_growth(prefix: str, first: Size, last: Size, between: str) -> Figure:
    """The figure of the largest worker. Raises ValueError where none was seen."""
    if not first.worker or not last.worker:
        raise ValueError(f"no Python worker was seen: {first.worker:g} MiB, then {last.worker:g} MiB")
    what = f"growth of the largest Python worker's resident size {between}"
    return growth(f"{prefix}memory-worker", what, first.worker, last.worker)


def growth(name: str, what: str, first: float, last: float) -> Figure:
    """One figure of two sizes in MiB."""
    return Figure(
        name=name,
        what=what,
        value=round((last / first - 1) * 100, 1),
        unit="%",
        better=Better.LOWER,
        goal=_GOAL_PERCENT,
        samples={"early MiB": [round(first, 1)], "late MiB": [round(last, 1)]},
    )


def _look(jvm: Any) -> tuple[float, float, float]:
    """This process's resident size, what a collection has left in its JVM's heap, and the largest worker, in MiB."""
    gc.collect()
    jvm.java.lang.System.gc()
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    left = [pool.getCollectionUsage() for pool in pools if pool.getType().name() == "HEAP"]
    heap_bytes = sum(usage.getUsed() for usage in left if usage is not None)
    return resident(Path("/proc/self")), heap_bytes / _MIB, max(_workers(jvm), default=0.0)


def workers_of(session: SparkSession) -> list[float]:
    """The resident size of each Python worker of a session, in MiB."""
    return _workers(session.sparkContext._jvm)


def _workers(jvm: Any) -> list[float]:
    found = map(resident, workers_below(int(jvm.java.lang.ProcessHandle.current().pid())))
    return [size for size in found if size]


def peak_growth(act: Callable[[], T]) -> tuple[T, float]:
    """What `act` gives, and how much this process has grown at its peak meanwhile, in MiB.

    Writing 5 to clear_refs sets the peak back to what is resident (proc(5)).
    """
    gc.collect()
    this = Path("/proc/self")
    (this / "clear_refs").write_text("5")
    before = resident(this)
    given = act()
    return given, _of_status(this, "VmHWM") - before


def workers_below(driver: int) -> list[Path]:
    """The folders in /proc of the Python workers of a driver's JVM: the daemon's children, not the daemon."""
    parents = dict(_parents())
    daemons = {pid for pid, parent in parents.items() if parent == driver and _is_daemon(pid)}
    return [Path(f"/proc/{pid}") for pid, parent in parents.items() if parent in daemons]


def children_of(process: int) -> list[int]:
    """The living children of a process."""
    return [pid for pid, parent in _parents() if parent == process]


def _parents() -> Iterator[tuple[int, int]]:
    """Every process of this machine, with its parent."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it may end meanwhile
            yield int(status.parent.name), int(status.read_text(errors="replace").rpartition(") ")[2].split()[1])


def _is_daemon(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return any(daemon in command for daemon in _DAEMONS)
    return False


def cpu_seconds(process: int) -> float:
    """User and system time, fields 14 and 15 of proc(5)'s stat."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: Path) -> float:
    """The resident size of a process, by its folder in /proc, in MiB; 0 when it has ended."""
    return _of_status(process, "VmRSS")


def _of_status(process: Path, line: str) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):
        found = re.search(rf"{line}:\s*(\d+) kB", (process / "status").read_text())
        return int(found[1]) / _KIB_PER_MIB if found else 0.0
    return 0.0
