"""`python aborting_program.py SERVERS TOPIC ATTEMPT|REDO TIMES`: writes rows into transactions that fail at once.

ATTEMPT: a task that aborts. REDO: a decided epoch that is written again from a journal which cannot be read further.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Outcome
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from


def main(servers: str, topic: str, what: str, times: int) -> None:
    sink = KafkaSink("numbers", servers, topic=topic, transactional_id_prefix=topic, transaction_timeout=60)
    sink.open(SinkPlan(identity=IDENTITY, schema=SCHEMA, mode="append", local_master=True, read_journal=lambda _: ()))
    {"ATTEMPT": aborted, "REDO": written_again}[what](sink, times)
    print("outlived", times)


def aborted(sink: KafkaSink, times: int) -> None:
    for number in range(times):
        transaction = sink.in_epoch(-1).begin(attempt_of(task_attempt=number))
        transaction.write(rows_from(0, 50))
        transaction.abort()


def written_again(sink: KafkaSink, times: int) -> None:
    transaction = sink.in_epoch(-1).begin(attempt_of())
    transaction.write(rows_from(0, 50))
    decided = transaction.pre_commit()
    assert decided is not None
    for _ in range(times):
        assert sink.redo(decided, torn()).outcome is Outcome.RETRY


def torn() -> Iterator[pa.RecordBatch]:
    yield rows_from(0, 50)
    raise TidegateError(Code.SINK_UNUSABLE, expected="rows", found="none", where="the journal", next_step="try again")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
