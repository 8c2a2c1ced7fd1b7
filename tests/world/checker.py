"""What must hold when a run of the world is over. Knows rows, logs and sinks; nothing of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from tests.world.configurations import TASKS
from tests.world.rows import EMPTY, Row


@dataclass(slots=True, kw_only=True)
class History:
    """What an onlooker has seen, and what stands there after the heal.

    `wanted`: the records that must have come out. `visible`: the rows of each sink in the order of its target.
    `surviving`: the accumulator of each task in the state that Spark would go on from; empty without state.
    `logged`: end and watermark of each epoch in Spark's offset log; `kept`: so many of the newest epochs stay there.
    `evidence`: the newest epoch that each sink proves. `premature`: epochs shown before they were decided, or computed
    too early. `troubles`: errors that are no declared ones, drivers that stop without a reason, runs that do not end.
    """

    wanted: frozenset[int]
    visible: dict[str, list[Row]]
    surviving: tuple[int, ...]
    logged: dict[int, tuple[int, int]]
    finished: int
    evidence: dict[str, int | None]
    kept: int = 100
    leftovers: list[str] = field(default_factory=list[str])
    premature: list[str] = field(default_factory=list[str])
    troubles: list[str] = field(default_factory=list[str])


def check(history: History) -> list[str]:
    """Everything that is wrong with a history; empty when nothing is."""
    found = [*history.troubles, *history.premature]
    found += [f"left over: {each}" for each in history.leftovers]
    for sink, rows in history.visible.items():
        found += [f"{sink}: {each}" for each in _check_rows(history, rows)]
        newest = max((row.epoch for row in rows), default=None)
        if history.evidence[sink] != newest:
            found.append(f"{sink}: evidence of epoch {history.evidence[sink]}, newest row of epoch {newest}")
    found += _check_agreement(history)
    found += _check_log(history)
    return found


def _check_rows(history: History, rows: list[Row]) -> Iterator[str]:
    records = sorted(row.record for row in rows)
    lost = sorted(history.wanted - set(records))
    if lost:
        yield f"lost records {lost}"
    repeated = sorted({record for record in records if records.count(record) > 1})
    if repeated:
        yield f"repeated records {repeated}"
    for task in range(TASKS):
        mine = [row.record for row in rows if row.record % TASKS == task]
        if mine != sorted(mine):
            yield f"key {task} out of order: {mine}"
    for epoch, each in groupby(sorted(rows, key=_by_epoch), key=_by_epoch):
        executions = {row.execution for row in each}
        if len(executions) > 1:
            yield f"epoch {epoch} torn: rows of executions {sorted(executions)}"
    yield from _check_ranges(history, rows)
    if history.surviving:
        for task in range(TASKS):
            yield from _check_state(history, task, [row for row in rows if row.task == task])


def _by_epoch(row: Row) -> int:
    return row.epoch


def _check_ranges(history: History, rows: list[Row]) -> Iterator[str]:
    """No row of a record that its epoch's input had not reached."""
    for row in rows:
        end = history.logged.get(row.epoch, (row.record + 1, 0))[0]
        if row.record >= end:
            yield f"record {row.record} in epoch {row.epoch}, which ends before record {end}"


def _check_state(history: History, task: int, rows: list[Row]) -> Iterator[str]:
    """The published values are those of the one chain of states that survived."""
    for row in rows:
        if row.counted != row.record // TASKS + 1:
            yield f"record {row.record} counted as number {row.counted}"
    around = sorted({(row.epoch, row.before, row.after) for row in rows})
    for (epoch, _, after), (later, before, _) in pairwise(around):
        if later == epoch + 1 and before != after:
            yield f"task {task}: epoch {later} was not computed with the state of epoch {epoch}"
    if around and around[0][0] == 0 and around[0][1] != EMPTY.accumulator:
        yield f"task {task}: epoch 0 was not computed with the empty state"
    if around and around[-1][0] == history.finished and around[-1][2] != history.surviving[task]:
        yield f"task {task}: the state that survived is not that of epoch {history.finished}'s rows"


def _check_agreement(history: History) -> Iterator[str]:
    """Both sinks show the same rows."""
    for (one, rows), (other, others) in pairwise(history.visible.items()):
        if set(rows) != set(others):
            yield f"{one} and {other} disagree: {sorted(set(rows) ^ set(others))}"


def _check_log(history: History) -> Iterator[str]:
    """Offsets and watermark never go back; every epoch of the log is finished."""
    newest = max(history.logged, default=-1)
    kept = [(epoch, entry) for epoch, entry in sorted(history.logged.items()) if epoch > newest - history.kept]
    for (epoch, before), (later, after) in pairwise(kept):
        if later != epoch + 1:
            yield f"Spark's log has a hole between epochs {epoch} and {later}"
        if after[0] < before[0] or after[1] < before[1]:
            yield f"epoch {later} goes back: {before} then {after}"
    if history.finished != newest:
        yield f"finished through epoch {history.finished}, Spark's log ends with epoch {newest}"
