"""Failpoints at work: kills, holds, pauses and errors at named places, only where a test has switched them on."""

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
        """Say that `point` was reached in `epoch` (None where no epoch is known); strikes when one waits there."""
        if self._strikes and (strike := self._taken(point, epoch)) is not None:
            _act(strike)
        if self._folder is not None and (strike := self._folder.take(point, epoch)) is not None:
            _act(strike)

    def _taken(self, point: str, epoch: int | None) -> Strike | None:
        """The strike that waits here, if any; each is taken by one thread only."""
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
            # To this very thread: sent to the process, another thread could take it while this one goes on.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        case Action.ERROR:
            raise OSError(f"failpoint {strike.point}")
        case Action.ACKLOST:
            raise TimeoutError(f"failpoint {strike.point}: no answer")


STRIKES = Strikes(os.environ)
"""The strikes of this process; a Python worker of Spark has its own, from the environment it inherited."""
