"""Queries that this process may not run again: their state files have no names of their own, and one was cut off.

Spark's hashmap store (pyspark 4.2 and 4.3) writes the state of epoch N to one name, whoever computed it. A run keeps
every version in memory, in a store that lives until Spark's maintenance comes by, and tasks that were cancelled end in
their own time. Both may write, after the run has ended, what it had computed for an epoch that was never decided, and
the next run's state would be replaced by it. In a new process nothing of that is alive: the lease proves it.
"""

from __future__ import annotations

from pathlib import Path

from tidegate.core.errors import Code, TidegateError

_spent: set[Path] = set()


def note_cut_off(folder: Path) -> None:
    """An epoch of the query in `folder` was begun in this process and not decided."""
    _spent.add(folder)


def refuse_if_spent(folder: Path, where: str) -> None:
    """Raise when an earlier run in this process was cut off."""
    if folder in _spent:
        raise TidegateError(
            Code.PROCESS_SPENT,
            expected="a process in which no epoch of this query was cut off",
            found="one was, and what is left of it may still write hashmap state",
            where=where,
            next_step="start the program again: in a new process it goes on; with rocksdb it would in this one",
        )
