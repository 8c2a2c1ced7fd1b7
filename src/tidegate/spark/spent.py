"""Queries that this process must not run again: one of their epochs was interrupted, and hashmap state may be
overwritten.

Spark's hashmap store (pyspark 4.2 and 4.3) writes the state of epoch N to the same file name in every run. Each run
keeps all versions in memory, in a store that lives until Spark's maintenance removes it, and cancelled tasks end later.
Both may still write the state of an undecided epoch after the run has ended, and would replace the state of the next
run. A new process has no such rest: it gets the job's lease only after the old process has ended.
"""

from __future__ import annotations

from tidegate.core.errors import Code, TidegateError
from tidegate.storages.schemes import Folder

_spent: set[Folder] = set()


def note_cut_off(folder: Folder) -> None:
    """An epoch of the query in `folder` began in this process and was not decided."""
    _spent.add(folder)


def refuse_if_spent(folder: Folder, where: str) -> None:
    """Raise if an epoch of an earlier run in this process was interrupted: its threads may still write to the state."""
    if folder in _spent:
        raise TidegateError(
            Code.PROCESS_SPENT,
            expected="a process in which no epoch of this query was cut off",
            found="one was, and its remaining tasks may still write hashmap state",
            where=where,
            next_step="start the program again: a new process resumes the query; with rocksdb this process could",
        )
