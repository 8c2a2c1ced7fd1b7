"""Finds what a sink has lost, for example by a failover to an older copy, and the retained checkpoint to restore.

What it has lost are the rows between two positions of the sources. The checkpoint is the newest one whose epochs the
sink still has.
"""

from __future__ import annotations

from tidegate.checkpoints.job_layout import CHECKPOINTS, QUERIES, generation_folder, retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import DECIDED, decode_decided, entry
from tidegate.core.records import DoneEpoch
from tidegate.core.spark_log import parse_offsets
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def with_way_back(error: TidegateError, job_folder: Folder) -> TidegateError:
    """An error SINK_BEHIND of a start that also names the source positions of the missing rows, and the retained
    checkpoint to go back to. Any other error stays.
    """
    if error.catalogue_entry is not Code.SINK_BEHIND or "epoch" not in error.details:
        return error
    query, sink = str(error.details["query"]), str(error.details["sink"])
    has = int(error.details["generation"]), int(error.details["epoch"])
    lacks = int(error.details["lacks_generation"]), int(error.details["lacks_epoch"])
    number = next(
        (each for each in reversed(retained_numbers(job_folder)) if _fits(job_folder, each, query, sink, has)), None
    )
    return TidegateError(
        error.catalogue_entry,
        expected=error.expected,
        found=error.found,
        where=f"{error.where}; {_missing(job_folder, query, has, lacks)}",
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


def _missing(job_folder: Folder, query: str, has: tuple[int, int], lacks: tuple[int, int]) -> str:
    begin = "from the start" if has[1] < 0 else f"behind source positions {_positions(job_folder, query, *has)}"
    return f"the missing rows: {begin}, up to source positions {_positions(job_folder, query, *lacks)}"


def _positions(job_folder: Folder, query: str, generation: int, epoch: int) -> str:
    """The end of each source in an epoch, from its decision, or from a retained checkpoint that outlives it."""
    folder = generation_folder(job_folder / QUERIES / query, generation)
    name = entry(DECIDED, epoch)
    data = open_storage(folder).read(name)
    if data is not None:
        entries = [decode_decided(data, f"{folder}/{name}").offsets]
    else:
        kept = (read_retained(job_folder, number) for number in retained_numbers(job_folder))
        done = [each for record in kept if record is not None for each in record.queries]
        of_epoch = (query, generation, epoch)
        entries = [each.offsets for each in done if (each.query, each.generation, each.epoch) == of_epoch]
    found = next((offsets for each in entries if (offsets := parse_offsets(each)) is not None), None)
    return f"of epoch {epoch}, which no record has any more" if found is None else str(list(found.positions))


def _fits(job_folder: Folder, number: int, query: str, sink: str, has: tuple[int, int]) -> bool:
    record = read_retained(job_folder, number)
    if record is None or record.drained:
        return False
    return all(_written_at(done, sink) <= has for done in record.queries if done.query == query)


def _written_at(done: DoneEpoch, sink: str) -> tuple[int, int]:
    """Generation and epoch of the newest rows that the checkpoint counts as written; (0, -1) for none."""
    progress = done.progress.get(sink)
    return (0, -1) if progress is None else (progress.generation or done.generation, progress.epoch)
