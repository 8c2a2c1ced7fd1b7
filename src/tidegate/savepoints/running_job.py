"""A job whose savepoint is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidegate.core.barriers import Alignment
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import DoneEpoch, JobRecord, SavedQuery, TakenPart
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.hold import RunningQuery
from tidegate.savepoints.state_tables import StateTable
from tidegate.storages.schemes import Folder

WriteTable = Callable[[StateTable, Path], None]
"""Writes a table of a query's state as Parquet, into a new folder that holds nothing else."""

OpenTables = Callable[[SavedQuery, Path, Copying], AbstractContextManager[WriteTable]]
"""Opens the state of a query, in the copy of Spark's checkpoint, to write its tables. They report their progress to
`Copying`, and end when it is canceled there.
"""


class Snapshots(Protocol):
    """The snapshots of a checkpoint across the queries of a job. A query that takes part earlier comes earlier."""

    def __iter__(self) -> Iterator[DoneEpoch]: ...

    @property
    def alignment(self) -> Alignment:
        """How they stand to the barriers. It may change until the last one is taken."""
        ...

    @property
    def taken(self) -> Mapping[str, TakenPart]:
        """By query, how each has taken part."""
        ...

    def go_on(self) -> None:
        """To be called regularly while the files of a snapshot are held: the other queries take part meanwhile. May
        raise.
        """
        ...


Checkpoint = Callable[[Callable[[], None]], AbstractContextManager[Snapshots]]
"""Begins an aligned checkpoint across the queries of a job, and ends it with the context. It is given a function to
call while it waits, which may raise.
"""


class CheckpointAborted(Exception):
    """A checkpoint across the queries has ended before all took part, and the job runs on: it may begin anew."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """The job of a savepoint.

    `reach`: called after each step. `open_tables`: None if no Spark runs that could write tables. `is_drained`: the job
    was drained, and the savepoint is to hold this end. `runs_on`: copy one file after the other, because the epochs
    need the cores. `checkpoint`: begins a checkpoint across the queries of a job with channels; None for other jobs,
    and after the end of a job. `end_input`: called after every query has ended, before the last savepoint; then its
    sources accept no more input. `keep_input`: while the files are collected, its sources remove no input that the
    savepoint needs.
    """

    folder: Folder
    record: JobRecord
    queries: Sequence[RunningQuery]
    reach: Callable[[str], None] = lambda _step: None
    open_tables: OpenTables | None = None
    is_drained: bool = False
    runs_on: bool = False
    checkpoint: Checkpoint | None = None
    end_input: Callable[[], None] = lambda: None
    keep_input: Callable[[], AbstractContextManager[None]] = nullcontext


def refused(job: RunningJob, expected: str, found: str, next_step: str = "") -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected=expected,
        found=found,
        where=f"job {job.record.name}",
        next_step=next_step
        or f"see `tidegate info {job.record.name}`, then take it again; nothing of the job was changed",
    )
