"""What happens to a database that tasks and commits write, and what must follow in each of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.support.staged import outcome
from tidegate.core.errors import TidegateError
from tidegate.core.records import Committable, Outcome
from tidegate.sinks.base import TwoPhaseSink
from tidegate.testing.contract import attempt_of, rows_from


def no_connection_loses_and_repeats_no_row(
    sink: TwoPhaseSink,
    staged: Callable[[int], Committable],
    busy: AbstractContextManager[None],
    told: str,
    counted: Callable[[], tuple[int, int]],
) -> None:
    """The task fails, so that its epoch is computed again. The commit waits.

    `staged`: two rows of an epoch. `busy`: the server has no connection while it lasts. `told`: what the server says
    then, as a pattern. `counted`: how many rows and how many ids the table has.
    """
    waiting = staged(0)
    with busy:
        with pytest.raises(TidegateError) as raised:
            sink.begin(attempt_of(epoch=1)).write(rows_from(11, 2))
        assert (raised.value.code, "max_connections" in raised.value.next_step) == ("TG-SINK-UNUSABLE", True)
        (answer,) = sink.commit([waiting])
        assert answer.outcome is Outcome.RETRY
        assert re.search(told, answer.detail)
    assert counted() == (0, 0)
    assert outcome(sink, waiting) is Outcome.COMMITTED
    assert outcome(sink, staged(1)) is Outcome.COMMITTED
    assert outcome(sink, waiting) is Outcome.ALREADY
    assert counted() == (4, 4)


def a_column_that_is_dropped_before_a_task_fails_its_epoch(
    sink: TwoPhaseSink,
    task: Callable[[], Committable],
    drop: Callable[[], object],
    add: Callable[[], object],
    prepared: Callable[[], list[str]],
    count: Callable[[], int],
) -> None:
    """`task`: the transaction of a task with two rows. `drop`, `add`: take the column `word` away, and give it back.
    `prepared`: the transactions that are prepared. `count`: the rows of the table.
    """
    drop()
    with pytest.raises(TidegateError, match=r"column.*word") as raised:
        task()  # of an epoch that has begun before
    assert (raised.value.code, "ALTER TABLE" in raised.value.next_step) == ("TG-SINK-UNUSABLE", True)
    sink.in_epoch(0)
    with pytest.raises(TidegateError, match="a table without 'word'") as raised:
        task()
    assert raised.value.code == "TG-SCHEMA-MISMATCH"
    assert prepared() == []
    add()
    sink.in_epoch(0)
    assert outcome(sink, task()) is Outcome.COMMITTED
    assert count() == 2
