"""A backlog from topic to topic and into a table, with the defaults of epochs: each takes seconds.

Arguments: the folder, the servers, the topic to read, the topic to write.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tests.support.session import small_session
from tidegate import JSON, Job, KafkaSink, KafkaSource, SQLiteSink

SECONDS_A_BATCH = 0.5


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(SECONDS_A_BATCH)
        yield batch


def main(folder: Path, servers: str, source: str, out: str) -> None:
    job = Job("backlog", spark=small_session(), checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=1)
    records = job.source("records", KafkaSource(servers, topics=[source], value=JSON("id BIGINT")))
    rows = records.select("value.id").mapInArrow(slowly, "id BIGINT")
    job.query(
        "copy",
        rows,
        sinks=[KafkaSink("topic", servers, topic=out), SQLiteSink("table", folder / "out.db", table="rows")],
    )
    job.run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
