"""The duration of epochs that is wanted, and the one that was."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.storages.schemes import Folder


def _unknown() -> None:
    """Nothing is measured."""


@dataclass(frozen=True, slots=True)
class Tempo:
    """The values by which a source adapts the rows of its epochs.

    `aim_seconds`: the duration that an epoch with a backlog aims at; 0: none. `log`: the folder of Spark's log of the
    query, beside the ledger. `timeout_seconds`: the time after which an epoch is cancelled. `newest_epoch_seconds`:
    returns the seconds from Spark's call with the newest epoch until it was prepared, in this process; None if no epoch
    was. Spark requests the end of the next epoch at the earliest after the interval, so the time of this request does
    not show the duration of a shorter epoch.
    """

    aim_seconds: float
    log: Folder
    timeout_seconds: float = math.inf
    newest_epoch_seconds: Callable[[], float | None] = _unknown
