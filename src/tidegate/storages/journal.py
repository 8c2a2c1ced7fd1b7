"""The port `Journal`: the rows of each attempt of a task, kept until their epoch is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt, JournalRef

if TYPE_CHECKING:
    import pyarrow as pa


def journal_name(attempt: Attempt) -> str:
    """The name of one attempt's rows in the journal of its query: the number of the epoch, `/`, and the rest."""
    return f"{attempt.epoch}/{attempt.sink.sink}.{attempt.name}.arrow"


class JournalMissing(TidegateError):
    """The rows that a journal reference names are not there."""

    def __init__(self, reference: JournalRef, where: str) -> None:
        super().__init__(
            Code.TRANSACTION_LOST,
            expected=f"a journal with {reference.rows} rows",
            found="no file",
            where=where,
            next_step="put the file back from a copy, then start again; without it these rows cannot be written again",
        )


class JournalWriter(Protocol):
    """Writes the rows of one attempt: `write` any number of times, then `close` or `abort`. In one thread of a task."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of `batch`. All batches have one schema. A batch without rows is none.

        Raises STORAGE_FULL or STORAGE_UNUSABLE, here or at `close`: also where another writer had this name. What that
        one has written is never changed, because a record may name it.
        """
        ...

    def close(self) -> JournalRef | None:
        """Make the rows durable and readable for every process, and give what proves them whole; None if no row came
        (then nothing is there). The reference is the only pointer to the rows: without it they count for nothing."""
        ...

    def abort(self) -> None:
        """Remove what was written, unless `close` gave a reference to it. It never raises over rows that are not there.
        A second call does nothing. A killed writer may leave what `delete_through` and `delete_from` remove."""
        ...


class Journal(Protocol):
    """The journal of one query in one generation. Tasks write on their machines, the driver reads and removes."""

    def where(self, name: str = "") -> str:
        """Where the rows of this name are, as a person would look for them."""
        ...

    def writer(self, name: str) -> JournalWriter:
        """What writes the rows of one attempt, under its `journal_name`. It asks the storage for nothing yet."""
        ...

    def read(self, reference: JournalRef) -> Iterator[pa.RecordBatch]:
        """The rows of one attempt, in the batches and the order in which they were written, on any machine.

        Size and checksum are compared here, before any row is given: a row that is given is as it was written.
        Raises RECORD_CORRUPT for what is torn or changed, JournalMissing if nothing is there.
        """
        ...

    def epochs(self) -> list[int]:
        """The epochs that have rows, ascending; also of attempts that were never closed."""
        ...

    def delete_through(self, epoch: int) -> None:
        """Remove the rows of all epochs up to and with `epoch`. Not durable; several processes may do it at once, and
        a killed one has the next call finish it."""
        ...

    def delete_from(self, epoch: int) -> None:
        """Remove the rows of `epoch` and of all later ones, as `delete_through` does. Only while none of their tasks
        runs."""
        ...
