"""An existing `foreachBatch` function as a sink: it is called with the final rows of each epoch."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidegate.core.errors import Code, TidegateError
from tidegate.core.guarantees import Shows
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome, Position, SinkIdentity
from tidegate.disk.durable import ensure_folder
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink, answer_all
from tidegate.sinks.files.check import row_violations
from tidegate.sinks.files.formats import FORMATS
from tidegate.sinks.files.local_place import folder_violations
from tidegate.sinks.files.parts import flaws_of, parts_of
from tidegate.sinks.files.shape import FileShape
from tidegate.sinks.files.stage import LocalStage
from tidegate.sinks.files.transaction import FileTransaction
from tidegate.sinks.marks import Marks
from tidegate.sinks.promises import Promise
from tidegate.sinks.staging import StagedFiles
from tidegate.sinks.standing import PROVES, Entry, Standing, in_words, standing_of_epoch, standing_of_one
from tidegate.storages.schemes import Folder

_SHAPE = FileShape(format=FORMATS["parquet"])


class FunctionSink(TwoPhaseSink):
    """Calls `fn(rows, epoch)` for every decided epoch with rows; at-least-once.

    The tasks keep the rows as Parquet files below the checkpoint. `rows` is a DataFrame over these files; use it only
    during the call. `fn` is called on the driver, for one epoch after the other, never for two at the same time, and
    not for an epoch without rows. After it returns, a durable receipt is written.

    A crash between the begin of `fn` and the receipt is the one case in which `fn` is called again: with the same rows
    and the same epoch number, never with others. So a function that stores the last epoch together with its output is
    exactly-once.

    An error of `fn` ends the job with TG-FUNCTION-FAILED. The epoch stays decided: the next start first calls `fn` with
    it again, and skips nothing.

    With delivery="at-least-once" `fn` is called inside the epoch, as Spark's `foreachBatch` does: a crash then repeats
    the epoch, and its rows may differ.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    remembers: ClassVar[bool] = False
    shows: ClassVar[Shows] = Shows.AGAIN
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            readers_see="the effect of the function, which is called after the decision with final rows",
            after_crash="called again with the same rows and the same epoch",
            needs="nothing; exact if the function stores the epoch with its output",
        ),
    )

    def __init__(
        self,
        uid: str,
        fn: Callable[[DataFrame, int], object],
        *,
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.fn = fn
        self._reader: _Reader | None = None
        self._folder: Path | None = None

    def attach(self, session: SparkSession, folder: Folder) -> None:
        """The parts that a job gives its function sinks before `check`: its session, and a folder of the query's
        ledger.
        """
        self._folder = folder.local() / "functions"
        self._reader = _Reader(session)

    def __getstate__(self) -> dict[str, object]:
        """The pickled part for the tasks: neither the function nor the session."""
        return {**super().__getstate__(), "fn": None, "_reader": None}

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        where = f"sink {self.uid!r}"
        folder = self._stage.root
        return [*folder_violations(plan, folder, folder, where), *row_violations(plan.schema, _SHAPE, where)]

    def open(self, plan: SinkPlan) -> None:
        ensure_folder(self._stage.root)
        self._receipts.remove_leftovers(plan.identity)
        self._opened_reader().schema = from_arrow_schema(plan.schema, prefer_timestamp_ntz=True)

    def position(self, identity: SinkIdentity) -> Position | None:
        """None: the receipts are part of the checkpoint, so they cannot be compared with it."""
        return None

    # --- in a task -----------------------------------------------------------------------------------------

    def begin(self, attempt: Attempt) -> Transaction:
        return FileTransaction(LocalStage.of(self._stage), attempt, _SHAPE)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        with self._alone() as alone:
            if not alone:
                return answer_all(committables, Outcome.RETRY, "another thread or process is calling the function")
            return self._commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        self._call(committables)
        return answer_all(committables, Outcome.COMMITTED, "")

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        found = self._receipts.get(attempt.sink, attempt.epoch)
        return PROVES[standing_of_one(committable, found, self._newest(attempt.sink))]

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self._stage.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self._stage.discard(identity, from_epoch)

    # --- the call ------------------------------------------------------------------------------------------

    def _commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        flaws = [next(iter(flaws_of(self._stage, committable).values()), None) for committable in committables]
        wanted, identity = Entry.of(committables), committables[0].attempt.sink
        newest = self._newest(identity)
        match standing_of_epoch(wanted, self._receipts.get(identity, wanted.epoch), newest):
            case Standing.SAME:
                return answer_all(committables, Outcome.ALREADY, "the function was called and returned")
            case Standing.OPEN if any(flaws):
                waiting = Answer(outcome=Outcome.RETRY, detail="not called: rows of this epoch are lost")
                return [Answer(outcome=Outcome.LOST, detail=flaw) if flaw else waiting for flaw in flaws]
            case Standing.OPEN:
                self._call(committables)
                self._put_receipt(identity, wanted)
                return answer_all(committables, Outcome.COMMITTED, "")
            case standing:
                return answer_all(committables, Outcome.UNKNOWN, in_words(standing, identity, wanted.epoch, newest))

    def _call(self, committables: Sequence[Committable]) -> None:
        in_task_order = sorted(committables, key=lambda committable: committable.attempt.task)
        files = [
            self._stage.file(committable.attempt, part.number)
            for committable in in_task_order
            for part in parts_of(committable)
        ]
        epoch = committables[0].attempt.epoch
        rows = self._opened_reader().read(files)
        try:
            self.fn(rows, epoch)
        except Exception as error:
            raise TidegateError(
                Code.FUNCTION_FAILED,
                expected=f"the function to take {sum(committable.rows for committable in committables)} rows",
                found=f"{type(error).__name__}: {error}",
                where=f"sink {self.uid!r}, epoch {epoch}",
            ) from error

    def _put_receipt(self, identity: SinkIdentity, entry: Entry) -> None:
        self._receipts.put(identity, entry)

    def _newest(self, identity: SinkIdentity) -> Position | None:
        newest = self._receipts.newest(identity)
        return None if newest is None else newest.position

    @contextmanager
    def _alone(self) -> Generator[bool, None, None]:
        """True if this call alone may look for the receipt and write it. A lock of an open file: it also excludes
        threads of this process, and ends with the process.
        """
        with (self._stage.root / f"{self.uid}.lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # a process that the function forked may still have it open

    @property
    def _stage(self) -> StagedFiles:
        return StagedFiles(self._attached_folder(), ".parquet")

    @property
    def _receipts(self) -> Marks:
        return Marks(self._attached_folder(), "receipt")

    def _attached_folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError(f"sink {self.uid!r} belongs to no job")
        return self._folder

    def _opened_reader(self) -> _Reader:
        if self._reader is None:
            raise RuntimeError(f"sink {self.uid!r} belongs to no job")
        return self._reader


@dataclass(slots=True)
class _Reader:
    """Held only on the driver: the session, and the columns of the rows."""

    session: SparkSession
    schema: StructType | None = None

    def read(self, files: Sequence[Path]) -> DataFrame:
        if self.schema is None:
            raise RuntimeError("commit before open")
        return self.session.read.schema(self.schema).parquet(*(_literally(file) for file in files))


def _literally(file: Path) -> str:
    """The path for Spark, which would read some characters of it as a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(file))
