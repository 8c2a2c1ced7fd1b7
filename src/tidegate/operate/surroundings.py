"""Tests the requirements of every job on this machine: Python, Java, Spark, the storage, the clock, the settings."""

from __future__ import annotations

import platform
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from tidegate.core.errors import TidegateError
from tidegate.core.health import Finding, failed, failed_by, ok, warn
from tidegate.extras import Extra
from tidegate.machine.java import find_java
from tidegate.machine.user import user_name
from tidegate.settings.reading import read_settings
from tidegate.storages.check import check_storage
from tidegate.storages.leases import open_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_PYTHON_AT_LEAST = (3, 10)
_SPARK_FROM, _SPARK_BELOW = (4, 2), (4, 4)
_RACES = 20
_SYNCS = 5
_SLOW_SYNC_SECONDS = 0.1
_SPACE_NEEDED, _SPACE_WANTED = 100 << 20, 1 << 30
_CLOCK_SECONDS = 2.0


def look_at_surroundings(
    root: Folder | None, environment: Mapping[str, str], overrides: Sequence[str]
) -> Iterator[Finding]:
    """Yield one finding after the other. `root`: `checkpointing.dir`; None: from the settings."""
    yield _python()
    yield from _java()
    yield from _user()
    yield _spark()
    yield from map(_extra, Extra)
    try:
        settings = read_settings({}, environment, overrides)
    except TidegateError as error:
        yield from failed_by("settings", error)
        settings = None
    else:
        given = len(settings.origins)
        yield ok("settings", f"{given or 'none'} given in the environment and by -D; they fit")
    folder = root or (None if settings is None else Folder.of(settings.checkpointing_dir))
    if folder is not None:
        yield from _storage(folder)


def _python() -> Finding:
    if sys.version_info[:2] >= _PYTHON_AT_LEAST:
        return ok("Python", platform.python_version())
    return failed("Python", platform.python_version(), "use Python 3.10 or newer")


def _java() -> list[Finding]:
    try:
        java = find_java()
    except TidegateError as error:
        return failed_by("Java", error)
    return [ok("Java", f"{java.says} ({java.command})")]


def _user() -> list[Finding]:
    try:
        return [ok("user", user_name())]
    except TidegateError as error:
        return failed_by("user", error)


def _spark() -> Finding:
    """Read from the installed package: an import of Spark would take longer than all other checks."""
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        return failed("Spark", "pyspark is not installed here", "pip install 'pyspark>=4.2,<4.4'")
    numbers = tuple(int(part) for part in installed.split(".")[:2] if part.isdigit())
    if _SPARK_FROM <= numbers < _SPARK_BELOW:
        return ok("Spark", f"pyspark {installed}")
    return failed("Spark", f"pyspark {installed}", "pip install 'pyspark>=4.2,<4.4'")


def _extra(extra: Extra) -> Finding:
    """A missing extra is no failure: only features that need it do not work."""
    what = f"extra {extra.label}"
    if extra.missing:
        return ok(what, f"not installed; needed by {extra.needed_by}", extra.command)
    return ok(what, ", ".join(f"{package} {version(package)}" for package in extra.modules))


# --- the storage -------------------------------------------------------------------------------------------


def _storage(folder: Folder) -> Iterator[Finding]:
    """Tested in a scratch folder in the folder of the checkpoints; the scratch folder is removed."""
    if not folder.is_local:
        try:
            with _scratch(folder) as scratch:
                yield from _trials(folder, scratch, None)
        except TidegateError as error:
            yield from failed_by("storage", error)
        return
    path = folder.local()
    there = next(path for path in (path, *path.parents) if path.is_dir())
    try:
        with _scratch(Folder.of(there)) as scratch:
            scratch.local().mkdir()
            yield from _trials(folder, scratch, there)
    except OSError as error:
        found = f"{there}: {error.strerror or error}"
        yield failed("storage", found, "give this user the right to write there, or name another checkpointing.dir")


def _trials(folder: Folder, scratch: Folder, there: Path | None) -> Iterator[Finding]:
    """`there`: the scratch folder is in this folder of a local disk. None on another storage."""
    broken = check_storage(open_storage(scratch))
    if broken is not None:
        yield from failed_by("storage", broken)
        return
    two = _races_with_two_winners(scratch)
    if two:
        yield failed(
            "storage",
            f"{folder}: of two writers at once both created the file, {two} times in {_RACES}",
            "choose a folder on a local file system with hard links, or in a store that honours conditional puts"
            " (checkpointing.dir)",
        )
        return
    seconds = _sync_seconds(scratch)
    tried = f"{folder}: of two writers one creates a file ({_RACES} races); rename, hard links, lists; "
    measured = f"{tried}a synced record takes {seconds * 1000:.1f} ms"
    if seconds <= _SLOW_SYNC_SECONDS:
        yield ok("storage", measured)
    else:
        yield warn("storage", measured, "an epoch syncs about ten records: choose a faster disk, or a longer interval")
    if there is not None:
        yield _locks(folder, scratch)
        yield _space(there)
    yield _clock(scratch)


@contextmanager
def _scratch(there: Folder) -> Generator[Folder]:
    name = f".tidegate-check-{secrets.token_hex(4)}"
    try:
        yield there / name
    finally:
        with suppress(TidegateError):  # what prevents the removal is found by the trials
            open_storage(there).clear(name)


def _races_with_two_winners(scratch: Folder) -> int:
    """Races in which both of two simultaneous writers create the same record, or neither does."""
    both = threading.Barrier(2)

    def write(name: str, data: bytes) -> bool:
        storage = open_storage(scratch)
        both.wait()
        return storage.put_if_absent(name, data)

    wrong = 0
    with ThreadPoolExecutor(2) as threads:
        for race in range(_RACES):
            won = [threads.submit(write, f"race-{race}", data) for data in (b"one", b"other")]
            wrong += [each.result() for each in won].count(True) != 1
    return wrong


def _sync_seconds(scratch: Folder) -> float:
    storage = open_storage(scratch)
    taken: list[float] = []
    for number in range(_SYNCS):
        begun = time.perf_counter()
        storage.put_if_absent(f"sync-{number}", b"x" * 1000)
        taken.append(time.perf_counter() - begun)
    return median(taken)


_TRY_THE_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(0)
sys.exit(1)
"""


def _locks(folder: Folder, scratch: Folder) -> Finding:
    """Hold the locks here and try them from another process, as two drivers would."""
    lease = open_lease(scratch)
    with lease.take("check", patience_seconds=0):
        other = [sys.executable, "-S", "-c", _TRY_THE_LOCK, lease.where()]
        refused = subprocess.run(other, capture_output=True, check=False).returncode == 0
    if refused:
        return ok("locks", f"{folder}: a second process is kept out")
    where = "choose a folder on a file system with locks (checkpointing.dir)"
    return failed("locks", f"{folder}: a second process was granted the same lock", where)


def _space(there: Path) -> Finding:
    usage = shutil.disk_usage(there)
    detail = f"{usage.free / (1 << 30):.1f} GiB of {usage.total / (1 << 30):.1f} GiB free at {there}"
    if usage.free < _SPACE_NEEDED:
        return failed("space", detail, "make space: a record that does not fit ends the job")
    return ok("space", detail) if usage.free >= _SPACE_WANTED else warn("space", detail, "make space")


def _clock(scratch: Folder) -> Finding:
    """Check the clock. No rule of the protocol needs it, but displayed ages, timeouts and the order of files do."""
    storage = open_storage(scratch)
    before = time.time()
    storage.note("clock", b"")
    seen = storage.look("clock")
    ahead = 0.0 if seen is None else seen.written_at - before
    if abs(ahead) <= _CLOCK_SECONDS:
        return ok("clock", f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(before))} UTC, the storage's is the same")
    detail = f"the storage's is {ahead:+.1f} s beside this machine's"
    return warn("clock", detail, "let both follow the same time server: ages that are shown are wrong")
