"""A standby at the start of its job: it gets ready, waits, and then starts the job as the driver.

It has run the program up to here. It holds no lock, and has opened no source and no sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tidegate.spark.job_plan import DeclaredJob
from tidegate.spark.old_declaration import Again, Unanswerable, ask_again, tables_again
from tidegate.spark.rehearsal import rehearse
from tidegate.spark.supervised import Role, current


def stand_by(job: DeclaredJob) -> None:
    """In a standby: wait until it becomes the driver, then ask again what its declaration has asked. In any other
    process: do nothing.

    Raises KeyboardInterrupt if the standby is to end, SystemExit if its declaration is of no use.
    """
    supervised = current()
    if supervised is None or supervised.role is Role.DRIVER:
        return
    try:
        ask_again(_questions(job))  # before it waits: can they be asked at all?
        if not supervised.is_taken_over:
            rehearse(job.session, job.settings, lambda: supervised.is_taken_over)
        supervised.stand_by()
        differs = ask_again(_questions(job))
    except Unanswerable as never:
        differs = str(never)
    if differs is not None:
        supervised.cannot_take_over(differs)


def _questions(job: DeclaredJob) -> Iterator[Again]:
    yield from job.asked
    for each in job.queries:
        yield partial(tables_again, each.rows, f"query {each.uid}")
