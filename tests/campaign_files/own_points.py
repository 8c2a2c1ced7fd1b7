"""Places inside the file source at which the campaign kills: a wait file per place, taken by who passes first.

They are no failpoints of the product: a driver of the campaign puts them around methods of the source.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.campaign.places import Places
from tidegate.sources.files.after_done import Cleaning
from tidegate.sources.files.lists import ListPosition
from tidegate.sources.files.log import FileLog

_METHODS: Mapping[str, tuple[type, str]] = {
    "list": (FileLog, "write"),  # the list of an epoch, which Spark's log does not name yet
    "index": (FileLog, "_stored"),  # a run of the index, whose lists are still there
    "gone": (Cleaning, "_let_go"),  # a file that is done
}
OWN_POINTS = tuple(f"{name}.{when}" for name in _METHODS for when in ("before", "after"))
_LISTS_IN_A_RUN = 4


def install(places: Places) -> None:
    """Put the places into this process, and let the index be put together often. Once a process."""
    for name, (owner, method) in _METHODS.items():
        setattr(owner, method, _passing(getattr(owner, method), _waiting(places), name))
    begin = FileLog.open

    def begun(self: FileLog, find_reached: Callable[[], ListPosition]) -> None:
        self.lists_in_a_run = _LISTS_IN_A_RUN
        begin(self, find_reached)

    FileLog.open = begun


def post(places: Places, place: str) -> None:
    """Let a kill wait at the place."""
    _waiting(places).mkdir(exist_ok=True)
    (_waiting(places) / place).touch()


def is_taken(places: Places, place: str) -> bool:
    return not (_waiting(places) / place).exists()


def _waiting(places: Places) -> Path:
    return places.strikes / "own"


def _passing(method: Callable[..., Any], waiting: Path, name: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def passing(*arguments: Any, **named: Any) -> Any:
        _pass(waiting / f"{name}.before")
        found = method(*arguments, **named)
        _pass(waiting / f"{name}.after")
        return found

    return passing


def _pass(strike: Path) -> None:
    with suppress(FileNotFoundError):
        strike.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
