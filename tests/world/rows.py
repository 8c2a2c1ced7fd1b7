"""The rows that the world's query computes. Each carries the state it was computed with, so that a checker sees it."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.world.configurations import TASKS, Configuration, Work


class Row(NamedTuple):
    """One output row. `execution` tells one computing of an epoch from all others.

    `before` and `after` are the random accumulator of the task's state around the epoch, `counted` the records that
    the task has counted up to this one.
    """

    record: int
    epoch: int
    execution: int
    task: int
    counted: int
    before: int
    after: int


class State(NamedTuple):
    """The state of one task: records counted, random accumulator, records that wait for the watermark."""

    counted: int
    accumulator: int
    waiting: tuple[int, ...]


EMPTY: Final = State(0, 1, ())


def compute(
    configuration: Configuration,
    *,
    epoch: int,
    execution: int,
    attempt: int,
    task: int,
    records: range,
    watermark: int,
    state: State,
) -> tuple[tuple[Row, ...], State]:
    """The rows of one task of an epoch, and its next state; other in each execution."""
    salt = execution * 7 + attempt
    after = (state.accumulator * 31 + salt) % 1_000_003
    if configuration.work is Work.STATELESS:
        mine = [record for record in records if (record + execution) % TASKS == task]
        counted = 0
    else:
        mine = [record for record in records if record % TASKS == task]
        counted = state.counted
    emitted, waiting = mine, state.waiting
    if configuration.work is Work.WINDOWED:
        pending = (*state.waiting, *mine)
        emitted = [record for record in pending if event_time(record) <= watermark]
        waiting = tuple(record for record in pending if event_time(record) > watermark)
    rows = tuple(
        Row(record, epoch, execution, task, counted + index + 1, state.accumulator, after)
        for index, record in enumerate(emitted)
        if record not in configuration.filtered
    )
    return rows, State(state.counted + len(emitted), after, waiting)


def event_time(record: int) -> int:
    """In milliseconds; the watermark after an epoch is the largest one seen."""
    return (record + 1) * 1000
