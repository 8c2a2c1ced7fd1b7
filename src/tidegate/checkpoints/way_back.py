"""Finds the retained checkpoint to restore when a sink has lost epochs, for example by a failover to an older copy.

It is the newest checkpoint whose epochs the sink still has.
"""

from __future__ import annotations

from tidegate.checkpoints.job_layout import CHECKPOINTS, retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import DoneEpoch
from tidegate.storages.schemes import Folder


def with_way_back(error: TidegateError, job_folder: Folder) -> TidegateError:
    """An error SINK_BEHIND of a start that also names the retained checkpoint to go back to. Any other error stays."""
    if error.catalogue_entry is not Code.SINK_BEHIND or "epoch" not in error.details:
        return error
    query, sink = str(error.details["query"]), str(error.details["sink"])
    has = int(error.details["generation"]), int(error.details["epoch"])
    number = next(
        (each for each in reversed(retained_numbers(job_folder)) if _fits(job_folder, each, query, sink, has)), None
    )
    return TidegateError(
        error.catalogue_entry,
        expected=error.expected,
        found=error.found,
        where=error.where,
        next_step=f"{_told(job_folder, number)}; or {error.next_step}",
        details=error.details,
    )


def _told(job_folder: Folder, number: int | None) -> str:
    if number is None:
        return "no retained checkpoint is old enough: go back to a savepoint, tidegate run -s PATH --rewind APP"
    path = job_folder / CHECKPOINTS / str(number)
    return (
        f"go back to retained checkpoint {number}: tidegate run -s {path} --rewind APP (what the target has lost is"
        " written again; rows behind that checkpoint that a target has kept come again)"
    )


def _fits(job_folder: Folder, number: int, query: str, sink: str, has: tuple[int, int]) -> bool:
    record = read_retained(job_folder, number)
    if record is None or record.drained:
        return False
    return all(_written_at(done, sink) <= has for done in record.queries if done.query == query)


def _written_at(done: DoneEpoch, sink: str) -> tuple[int, int]:
    """Generation and epoch of the newest rows that the checkpoint counts as written; (0, -1) for none."""
    progress = done.progress.get(sink)
    return (0, -1) if progress is None else (progress.generation or done.generation, progress.epoch)
