"""The events that the protocol reports to listeners: for logs, progress lines and counts. No decision depends on them.

The text of each is a sentence for people; the log prints job, query and epoch before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.core.effects import Happening
from tidegate.core.records import FinishedThrough
from tidegate.core.tolerance import EpochFault


@dataclass(frozen=True, slots=True)
class EpochPrepared(Happening):
    """Every sink of the epoch has pre-committed."""

    epoch: int
    rows: int

    def __str__(self) -> str:
        return f"every sink of epoch {self.epoch} has pre-committed, {self.rows} rows"


@dataclass(frozen=True, slots=True)
class EpochDecided(Happening):
    """One prepared record of the epoch was chosen."""

    epoch: int
    run: int

    def __str__(self) -> str:
        return f"epoch {self.epoch} is decided: the transactions of run {self.run} count"


@dataclass(frozen=True, slots=True)
class EpochDone(Happening):
    """Every sink of the epoch has committed."""

    epoch: int
    rows: int
    reached: FinishedThrough | None = field(default=None, repr=False)
    """How far the query is finished with it: the record that was written."""
    transactions: int = 0
    """Those of the epoch, which the sinks have committed."""

    def __str__(self) -> str:
        return f"every sink of epoch {self.epoch} has committed, {self.rows} rows"


@dataclass(frozen=True, slots=True)
class DeadLettersWritten(Happening):
    """Rows that a sink refused have become dead letters."""

    epoch: int
    sink: str
    rows: int

    def __str__(self) -> str:
        return f"{self.rows} rows of epoch {self.epoch} are dead letters: sink {self.sink} has them, and why"


@dataclass(frozen=True, slots=True)
class EpochFailed(Happening):
    """An epoch failed before it was prepared, `in_a_row` with those before it. If tolerated, it runs again at once.

    `in_new_process`: nothing may run again in this process, so the program is started again.
    """

    epoch: int
    fault: EpochFault
    in_a_row: int
    tolerated: bool
    in_new_process: bool = False

    def __str__(self) -> str:
        again = "the program is started again" if self.in_new_process else "it runs again with the same input"
        what = again if self.tolerated else "the job does not tolerate it"
        return f"epoch {self.epoch} has failed ({self.fault.value}), {self.in_a_row} in a row: {what}"


@dataclass(frozen=True, slots=True)
class EpochGetsMoreTime(Happening):
    """An epoch was cut off before, and has more time when it runs again."""

    epoch: int
    seconds: float
    tried_seconds: float

    def __str__(self) -> str:
        return (
            f"epoch {self.epoch} was cut off before, after {self.tried_seconds:g} s: it has {self.seconds:g} s when it"
            " runs again"
        )


@dataclass(frozen=True, slots=True)
class RowsShown(Happening):
    """A sink below exactly-once has made an epoch's rows visible before the epoch counts."""

    epoch: int
    sink: str
    rows: int

    def __str__(self) -> str:
        return f"sink {self.sink} shows {self.rows} rows of epoch {self.epoch} before it counts"


@dataclass(frozen=True, slots=True)
class RowsGivenUp(Happening):
    """An at-most-once sink has lost an epoch's rows, or cannot tell if it has them: they are never written again."""

    epoch: int
    sink: str
    rows: int
    detail: str

    def __str__(self) -> str:
        return f"sink {self.sink} gives {self.rows} rows of epoch {self.epoch} up for good: {self.detail}"


@dataclass(frozen=True, slots=True)
class TransactionRedone(Happening):
    """A lost transaction was written again from its journal."""

    epoch: int
    sink: str
    task: int

    def __str__(self) -> str:
        return (
            f"epoch {self.epoch}, sink {self.sink}: redone, because the transaction of task {self.task} was lost:"
            " written again from its journal"
        )


@dataclass(frozen=True, slots=True)
class RowsShownAgain(Happening):
    """A sink without evidence was given an epoch's rows again, because an earlier call may have ended without an
    answer.
    """

    epoch: int
    sink: str
    rows: int

    def __str__(self) -> str:
        return (
            f"sink {self.sink} got {self.rows} rows of epoch {self.epoch} again: an earlier call may have ended without"
            " an answer, so they may stand there twice"
        )


@dataclass(frozen=True, slots=True)
class RecordsSkipped(Happening):
    """A done epoch has skipped records that are lost in its source."""

    epoch: int
    source: str
    what: str
    """The lost records, by topic and partition."""

    def __str__(self) -> str:
        return f"epoch {self.epoch} has skipped lost records of source {self.source}: {self.what}"


@dataclass(frozen=True, slots=True)
class TransactionsAborted(Happening):
    """Transactions of dead runs were aborted; their epoch runs again."""

    count: int

    def __str__(self) -> str:
        return f"{self.count} transactions of dead runs are aborted; their epoch runs again"


@dataclass(frozen=True, slots=True)
class LogRestored(Happening):
    """An entry of Spark's log was made equal to the decision."""

    name: str

    def __str__(self) -> str:
        return f"{self.name} is as decided again"


@dataclass(frozen=True, slots=True)
class LogSetAside(Happening):
    """An undecided entry of Spark's log was renamed so that Spark no longer finds it."""

    name: str
    kept_as: str

    def __str__(self) -> str:
        return f"{self.name} was not decided and is set aside, as {self.kept_as}"


@dataclass(frozen=True, slots=True)
class DueEpochAdded(Happening):
    """A due no-data epoch that Spark would have forgotten was added to its log."""

    epoch: int
    watermark_ms: int

    def __str__(self) -> str:
        return f"epoch {self.epoch} without data is due (watermark {self.watermark_ms} ms): Spark will run it"
