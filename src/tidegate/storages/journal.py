"""The port `Journal`: the rows of each attempt of a task, kept until their epoch is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt, JournalRef

if TYPE_CHECKING:
    import pyarrow as pa


def journal_name(attempt: Attempt) -> str:
    """The name of one attempt's rows in the journal of its query: the number of the epoch, `/`, and the rest."""
    return f"{attempt.epoch}/{attempt.sink.sink}.{attempt.name}.arrow"


class JournalMissing(TidegateError):
    """The rows of a journal reference do not exist."""

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
        """Append the rows of `batch`. All batches have one schema. A batch without rows has no effect.

        Raises STORAGE_FULL or STORAGE_UNUSABLE, here or at `close`, also if another writer has used this name. The rows
        of the other writer never change, because a record may name them.
        """
        ...

    def close(self) -> JournalRef | None:
        """Make the rows durable and readable for every process, and return the reference with their proof. None if no
        row came; then nothing is stored. Only the reference points to the rows: without it they do not count.
        """
        ...

    def abort(self) -> None:
        """Remove the written rows, unless `close` returned a reference to them. Never raises for missing rows. A second
        call does nothing. `delete_through` and `delete_from` remove the rows of a killed writer.
        """
        ...


class Journal(Protocol):
    """The journal of one query in one generation. Tasks write on their machines; the driver reads and removes."""

    def where(self, name: str = "") -> str:
        """The place of the rows of this name, for messages."""
        ...

    def writer(self, name: str) -> JournalWriter:
        """A writer for the rows of one attempt, under its `journal_name`. Sends no request to the storage yet."""
        ...

    def read(self, reference: JournalRef) -> Iterator[pa.RecordBatch]:
        """The rows of one attempt, in the batches and the order of their writes, on any machine.

        Size and checksum are verified before the first row is returned. Raises RECORD_CORRUPT for torn or altered rows,
        JournalMissing if there are none.
        """
        ...

    def epochs(self) -> list[int]:
        """The epochs with rows, ascending; also of attempts that were never closed."""
        ...

    def delete_through(self, epoch: int) -> None:
        """Remove the rows of all epochs up to and including `epoch`. Not durable. Several processes may call it at the
        same time. The next call completes the work of a killed process.
        """
        ...

    def delete_epoch(self, epoch: int, names: Sequence[str]) -> None:
        """Remove the rows of `names`, all attempts of `epoch`, without a list; no error for rows that are absent. What
        others have left of this epoch goes, too, if that costs nothing more; else `delete_through` removes it.
        """
        ...

    def delete_from(self, epoch: int) -> None:
        """Remove the rows of `epoch` and of all later ones, like `delete_through`. Only while none of their tasks
        runs.
        """
        ...
