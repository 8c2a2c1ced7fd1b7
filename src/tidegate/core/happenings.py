"""What the protocol tells listeners: for logs, progress lines and counts. No decision depends on it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.effects import Happening
from tidegate.core.tolerance import EpochFault


@dataclass(frozen=True, slots=True)
class EpochPrepared(Happening):
    """Every sink of the epoch has pre-committed."""

    epoch: int
    rows: int


@dataclass(frozen=True, slots=True)
class EpochDecided(Happening):
    """One prepared record of the epoch was chosen."""

    epoch: int
    run: int


@dataclass(frozen=True, slots=True)
class EpochDone(Happening):
    """Every sink of the epoch has committed."""

    epoch: int
    rows: int


@dataclass(frozen=True, slots=True)
class EpochFailed(Happening):
    """An epoch failed before it was prepared, `in_a_row` with those before it; tolerated, it runs again at once."""

    epoch: int
    fault: EpochFault
    in_a_row: int
    tolerated: bool


@dataclass(frozen=True, slots=True)
class RowsShown(Happening):
    """A sink below exactly-once has made an epoch's rows visible before the epoch counts."""

    epoch: int
    sink: str
    rows: int


@dataclass(frozen=True, slots=True)
class RowsGivenUp(Happening):
    """An at-most-once sink has lost an epoch's rows, or cannot tell whether it has them: they never come again."""

    epoch: int
    sink: str
    rows: int
    detail: str


@dataclass(frozen=True, slots=True)
class TransactionRedone(Happening):
    """A lost transaction was written again from its journal."""

    epoch: int
    sink: str
    task: int


@dataclass(frozen=True, slots=True)
class TransactionsAborted(Happening):
    """Transactions of dead runs were given up; their epoch runs again."""

    count: int


@dataclass(frozen=True, slots=True)
class LogRestored(Happening):
    """An entry of Spark's log was made equal to the decision."""

    name: str


@dataclass(frozen=True, slots=True)
class LogSetAside(Happening):
    """An undecided entry of Spark's log was renamed so that Spark no longer finds it."""

    name: str
    kept_as: str


@dataclass(frozen=True, slots=True)
class DueEpochAdded(Happening):
    """A due no-data epoch that Spark would have forgotten was put into its log."""

    epoch: int
    watermark_ms: int
