"""Failpoints: kills, holds, pauses and errors at named places. Only tests switch them on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

from tidegate.core.failpoints import Action, Strike, parse_strikes
from tidegate.disk.strike_folder import StrikeFolder


class Strikes:
    """The failpoints of this process. Without TIDEGATE_TESTING=1 there are none and `reach` does nothing."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        testing = environment.get("TIDEGATE_TESTING") == "1"
        self._strikes = parse_strikes(environment.get("TIDEGATE_FAILPOINTS", "")) if testing else []
        folder = environment.get("TIDEGATE_STRIKES") if testing else None
        self._folder = StrikeFolder(Path(folder)) if folder else None

    def reach(self, point: str, epoch: int | None) -> None:
        """Report that `point` was reached in `epoch` (None if unknown). Strikes if a strike waits there."""
        if self._strikes and (strike := self._taken(point, epoch)) is not None:
            _act(strike)
        if self._folder is not None and (strike := self._folder.take(point, epoch)) is not None:
            _act(strike)

    def _taken(self, point: str, epoch: int | None) -> Strike | None:
        """The strike that waits here, if any; only one thread takes it."""
        with self._lock:
            for strike in self._strikes:
                if strike.fits(point, epoch):
                    self._strikes.remove(strike)
                    return strike
        return None


def _act(strike: Strike) -> None:
    match strike.action:
        case Action.CRASH:
            os.kill(os.getpid(), signal.SIGKILL)
        case Action.HOLD:
            Path(strike.target).write_text(f"{strike.point} {os.getpid()}")
            threading.Event().wait()
        case Action.PAUSE:
            # To this very thread: a signal to the process could be taken by another thread while this one continues.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        case Action.ERROR:
            raise OSError(f"failpoint {strike.point}")
        case Action.ACKLOST:
            raise TimeoutError(f"failpoint {strike.point}: no answer")


STRIKES = Strikes(os.environ)
"""The strikes of this process. A Python worker of Spark has its own, from its environment."""
