"""`python aborting_program.py SERVERS TOPIC TIMES`: begins transactions, writes rows and aborts them at once."""

from __future__ import annotations

import sys

from tidegate.sinks.base import SinkPlan
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from


def main(servers: str, topic: str, times: int) -> None:
    sink = KafkaSink("numbers", servers, topic=topic, transactional_id_prefix=topic, transaction_timeout=60)
    sink.open(SinkPlan(identity=IDENTITY, schema=SCHEMA, mode="append", local_master=True, read_journal=lambda _: ()))
    for number in range(times):
        transaction = sink.in_epoch(-1).begin(attempt_of(task_attempt=number))
        transaction.write(rows_from(0, 50))
        transaction.abort()
    print("aborted", times)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
