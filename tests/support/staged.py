"""Transactions of a sink that are prepared and committed without Spark, as the ledger gives them back."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from tidegate.core.json_formats import parsed
from tidegate.core.records import Attempt, Committable, Outcome
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from


def plan(schema: pa.Schema = SCHEMA, *, local_master: bool = True, mode: str = "append") -> SinkPlan:
    return SinkPlan(identity=IDENTITY, schema=schema, mode=mode, local_master=local_master, read_journal=lambda _: ())


def staged(
    sink: TwoPhaseSink, epoch: int = 0, generation: int = 1, *, rows: pa.RecordBatch | None = None, task: int = 0
) -> Committable:
    """One prepared transaction, by default with two rows of the contract's schema."""
    return of_attempt(sink, attempt_of(epoch=epoch, generation=generation, task=task), rows)


def of_attempt(sink: TwoPhaseSink, attempt: Attempt, rows: pa.RecordBatch | None = None) -> Committable:
    batch = rows_from(attempt.epoch * 10 + attempt.task, 2) if rows is None else rows
    sink.open(plan(batch.schema))
    transaction = sink.begin(attempt)
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    return parsed(msgspec.json.encode(committable), Committable)


def outcome(sink: TwoPhaseSink, *committables: Committable) -> Outcome:
    (found,) = {answer.outcome for answer in sink.commit(committables)}
    return found


def committed(sink: TwoPhaseSink, *epochs: int) -> None:
    for epoch in epochs:
        assert outcome(sink, staged(sink, epoch)) is Outcome.COMMITTED


def ids_from(*epochs: int, each: int = 2) -> list[int]:
    """The ids of the rows that `staged` writes by default."""
    return [number for epoch in epochs for number in range(epoch * 10_000, epoch * 10_000 + each)]
