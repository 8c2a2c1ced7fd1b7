"""Compares the evidence in a sink with a savepoint, so that a restore neither repeats nor loses rows in it.

Evidence is stored under the names of job, query and sink. A restore under other names is a new job, so both are
checked: the evidence under the savepoint's names, and the evidence under the names of the restored job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import JobRecord, Position, SavedQuery, SavepointRecord, SinkProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSeen:
    """A sink of the program, and the newest evidence in its target.

    `saved`: the savepoint's entry of its query, None for a new query. `progress`: the savepoint's entry of the sink,
    None for a new sink. `under_saved`, `under_new`: the evidence under the names in the savepoint, and under the names
    of the restored job. `same_names`: True if these names are equal; then `under_new` is used. `expires`: True if the
    target forgets evidence, so that missing evidence proves nothing. `under_later`: the evidence under other names that
    the sink had in generations after the savepoint.
    """

    query: str
    sink: str
    saved: SavedQuery | None
    progress: SinkProgress | None
    under_saved: Position | None
    under_new: Position | None
    same_names: bool
    expires: bool
    under_later: tuple[Position, ...] = ()


def later_names(query: str, sink: str, renamed: Iterable[Mapping[str, str]]) -> set[tuple[str, str]]:
    """The names (query, sink) that a sink may have had after the savepoint, without the names in the savepoint.

    `renamed`: for each restore after the savepoint, oldest first, the new names by the old names. It is not known from
    which savepoint each of these restores resumed. So each restore may or may not have renamed this sink, and the
    result contains every possible name.
    """
    names = {(query, sink)}
    for now in renamed:
        names |= {(now.get(query, query), now.get(sink, sink)) for query, sink in names}
    return names - {(query, sink)}


def begins_with(
    savepoint: SavepointRecord, target: JobRecord, query: str, sinks: Sequence[str], saved: SavedQuery
) -> dict[str, SinkProgress]:
    """The evidence with which the ledger of a restored query begins: by sink, the newest write that the savepoint
    counts. So a start finds out if it is missing in the target before the new generation writes. Only if all names are
    unchanged, under the savepoint's job id: another name may have no such evidence, and another job writes into its own
    targets.
    """
    if (target.job_id, target.name, query) != (savepoint.job_id, savepoint.job, saved.done.query):
        return {}
    return {
        uid: replace(wrote, generation=wrote.generation or saved.done.generation)
        for uid, wrote in saved.done.progress.items()
        if uid in sinks
    }


def judge_sink(savepoint: SavepointRecord, target: JobRecord, seen: SinkSeen) -> TidegateError | None:
    """The error if the evidence in a sink does not fit the savepoint; None if it fits.

    The sink may be ahead of the savepoint, be behind the savepoint, or belong to another job.
    """
    new = seen.under_new
    if new is not None and (seen.saved is None or not seen.same_names):
        # None of this is in the savepoint: the restored job would write all of it a second time.
        if new.job_id == target.job_id:
            return _ahead(savepoint, target, seen, new)
        return _of_another_job(savepoint, target, seen, new)
    if seen.saved is None:
        return None
    for found in seen.under_later:
        if found.job_id == target.job_id and found.generation > seen.saved.done.generation:
            return _ahead(savepoint, target, seen, found)
    return _compared(savepoint, target, seen, seen.saved)


def _compared(savepoint: SavepointRecord, target: JobRecord, seen: SinkSeen, saved: SavedQuery) -> TidegateError | None:
    found, progress = seen.under_saved, seen.progress
    if found is None:
        wrote = progress is not None and not seen.expires
        return _behind(target, seen, "nothing") if wrote and target.job_id == savepoint.job_id else None
    if found.job_id == target.job_id != savepoint.job_id:
        return _ahead(savepoint, target, seen, found)
    if found.job_id != savepoint.job_id:
        return _of_another_job(savepoint, target, seen, found)
    at, done = (found.generation, found.epoch), saved.done
    if at > (done.generation, done.epoch):
        return _ahead(savepoint, target, seen, found)
    wrote_at = None if progress is None else (progress.generation or done.generation, progress.epoch)
    if wrote_at is not None and at < wrote_at:
        return _behind(target, seen, f"epoch {found.epoch} of generation {found.generation}")
    if progress is not None and at == wrote_at and found.digest != progress.digest:
        return _error(
            target, seen, Code.SECOND_TIMELINE, f"digest {progress.digest}", f"digest {found.digest}", _OTHER_TARGET
        )
    if seen.same_names and target.job_id != savepoint.job_id:
        return _of_another_job(savepoint, target, seen, found)
    return None


_OTHER_TARGET = "restore into another target, or take the savepoint that belongs to this one"


def _ahead(savepoint: SavepointRecord, target: JobRecord, seen: SinkSeen, found: Position) -> TidegateError:
    visible = f"epoch {found.epoch} of generation {found.generation} is visible"
    if seen.saved is None or found.job_id != savepoint.job_id:
        expected = "nothing that the savepoint does not have"
        found_text = f"{visible}: all rows up to it would come again"
    else:
        done = seen.saved.done
        expected = f"nothing after epoch {done.epoch} of generation {done.generation}, where the savepoint ends"
        first = done.epoch + 1 if found.generation == done.generation else 0
        epochs = f"epoch {first}" if first == found.epoch else f"epochs {first} to {found.epoch}"
        found_text = f"{visible}: rows of {epochs} would come again"
    return _error(target, seen, Code.SINK_AHEAD, expected, found_text, _GO_ON)


_GO_ON = (
    "to resume from the newest checkpoint, start without a savepoint; to go back all the same: --rewind; those rows "
    "are repeated; or restore under another job name into other targets"
)


def _behind(target: JobRecord, seen: SinkSeen, found: str) -> TidegateError:
    wrote = 0 if seen.progress is None else seen.progress.epoch
    expected = f"epoch {wrote}, which the savepoint counts as written"
    return _error(target, seen, Code.SINK_BEHIND, expected, found, _OTHER_TARGET)


def _of_another_job(savepoint: SavepointRecord, target: JobRecord, seen: SinkSeen, found: Position) -> TidegateError:
    of_savepoint = found.job_id == savepoint.job_id
    return _error(
        target,
        seen,
        Code.SINK_OF_ANOTHER_JOB,
        f"nothing, or evidence of job id {target.job_id}",
        f"evidence of job id {found.job_id}" + (", the savepoint's" if of_savepoint else ""),
        "claim the savepoint (--claim): the job moves here under its own id, and the old one must not start again; or "
        "restore under another job name, or into other targets"
        if of_savepoint
        else "restore under another job name, or into other targets",
    )


def _error(target: JobRecord, seen: SinkSeen, code: Code, expected: str, found: str, next_step: str) -> TidegateError:
    where = f"job {target.name}, query {seen.query}, evidence in sink {seen.sink}"
    return TidegateError(code, expected=expected, found=found, where=where, next_step=next_step)
