"""Strikes that wait for the first process that passes, and the passed places: files of one folder.

    waiting/<name>   one strike, as it is written in TIDEGATE_FAILPOINTS
    taken/<name>     the same file, renamed by the process that took it: no second one can
    taken/<name>.by  the place, process and epoch: `commit.before 4711 12`
    passed           every place that a process has passed for the first time, appended: one line each

A driver that lives through many strikes, and Spark's Python workers, which come and go, see each new strike at once.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.failpoints import POINTS, Strike, parse_strikes


@dataclass(frozen=True, slots=True)
class TakenBy:
    """The process that took a strike: the place, the process id, the epoch (None if unknown)."""

    place: str
    process: int
    epoch: int | None


class StrikeFolder:
    """Both sides of the folder: `post` and its results for the striking process, `take` for the struck processes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._waiting, self._taken, self._passed = root / "waiting", root / "taken", root / "passed"
        self._lock = threading.Lock()
        self._noted: set[str] = set()
        for folder in (self._waiting, self._taken):
            folder.mkdir(parents=True, exist_ok=True)

    # --- for the striking process --------------------------------------------------------------------------

    def post(self, name: str, strike: str) -> None:
        """Add `strike` under `name`, which was never used before."""
        parse_strikes(strike)
        draft = self._root / f".{name}"
        draft.write_text(strike)
        draft.rename(self._waiting / name)

    def withdraw(self, name: str) -> None:
        """Withdraw a strike, if it still waits."""
        (self._waiting / name).unlink(missing_ok=True)

    def taken_by(self, name: str) -> TakenBy | None:
        """The process that took the strike; None while it waits."""
        try:
            place, process, epoch, end = (self._taken / f"{name}.by").read_text().split(" ")
        except (FileNotFoundError, ValueError):  # missing or incomplete
            return None
        return TakenBy(place, int(process), None if epoch == "-" else int(epoch)) if end else None

    def passed(self) -> Counter[str]:
        """Every passed place, with the number of processes that passed it."""
        try:
            return Counter(self._passed.read_text().split())
        except FileNotFoundError:
            return Counter()

    # --- for the struck processes --------------------------------------------------------------------------

    def take(self, place: str, epoch: int | None) -> Strike | None:
        """Record that `place` is passed. Returns the strike that waits here, for this process alone."""
        if place not in POINTS:
            return None
        self._note(place)
        for name in sorted(os.listdir(self._waiting)):
            strike = self._read(name)
            if strike is not None and strike.fits(place, epoch) and self._take(name):
                by = f"{place} {os.getpid()} {'-' if epoch is None else epoch} ."
                (self._taken / f"{name}.by").write_text(by)
                return strike
        return None

    def _note(self, place: str) -> None:
        with self._lock:
            if place in self._noted:
                return
            self._noted.add(place)
        with self._passed.open("a") as passed:
            passed.write(f"{place}\n")

    def _read(self, name: str) -> Strike | None:
        try:
            return parse_strikes((self._waiting / name).read_text())[0]
        except FileNotFoundError:  # another process was quicker
            return None

    def _take(self, name: str) -> bool:
        try:
            (self._waiting / name).rename(self._taken / name)
        except FileNotFoundError:
            return False
        return True
