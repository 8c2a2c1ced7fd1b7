"""At the end of a job each query that reads channels reads what the queries before it have left there.

All queries have stopped. In the order of the program each reader runs once more, bounded: it reads its channels to
their end, and what is in its other sources at that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.spark.no_data import DueEpoch
from tidegate.spark.query_run import QueryRun

_LOOK_SECONDS = 0.05
_AVAILABLE_NOW = {"availableNow": True}


@dataclass(frozen=True, slots=True)
class Reins:
    """The parts of a job that its last runs need. If one is cut short, the next start of the job resumes it."""

    another: Callable[[QueryRun], QueryRun]
    """Returns the next run of a query. Its current run has ended."""
    look: Callable[[], None]
    """Called while a run is awaited."""
    is_cut_short: Callable[[], bool]


def read_out_all(runs: Sequence[QueryRun], reins: Reins) -> None:
    """Let each reader read its channels to their end. Its run in `runs`, in the order of the program, has ended and is
    replaced by the next one. Raises the error of a run.
    """
    for run in list(runs):
        if run.plan.reads_from and not reins.is_cut_short():
            read_out(run, reins)


def read_out(ended: QueryRun, reins: Reins) -> QueryRun:
    """Run a reader once more until it has read its channels to their end. Returns this run, which has ended."""
    run = reins.another(ended)
    run_to_its_end(run, reins, lambda: run.start(_AVAILABLE_NOW, DueEpoch.LEFT))
    return run


def run_to_its_end(run: QueryRun, reins: Reins, start: Callable[[], None]) -> None:
    """Open a bounded run, call `start`, and wait until the run has ended or is cut short; then close it."""
    run.open()  # its error is the one to raise: a run that was not opened has nothing to close
    try:
        start()
        while not run.threads.has_ended():
            if reins.is_cut_short():
                run.threads.stop(0)
                break
            reins.look()
            time.sleep(_LOOK_SECONDS)
    finally:
        run.close()
