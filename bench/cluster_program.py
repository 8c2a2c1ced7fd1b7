"""The driver of `storage_cluster.py`: from topic to topic, with its checkpoint on HDFS.

    python -m bench.cluster_program CASE SERVERS SOURCE OUT FOLDER EVENTS_PER_EPOCH [SESSION...]

PYSPARK_SUBMIT_ARGS names the master. With each epoch that is done it prints one line of JSON: its rows, the CPU time of
all processes of this session and of the given ones, and the time; both in seconds.
"""

from __future__ import annotations

import os
import sys
import time

import msgspec

from bench.footprint import cpu_seconds_of_sessions
from bench.kafka_cluster import EVENT
from bench.kafka_throughput import CASES
from tidegate import JSON, Job, KafkaSink, KafkaSource
from tidegate.core.happenings import EpochDone
from tidegate.spark.listeners import JobEvent


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one line tells."""

    rows: int
    cpu_seconds: float
    at: float


def main() -> None:
    name, servers, source, out, folder, events, *others = sys.argv[1:]
    sessions = {os.getsid(0), *map(int, others)}

    def listen(event: JobEvent) -> None:
        if isinstance(event.happening, EpochDone):
            seen = Seen(rows=event.happening.rows, cpu_seconds=cpu_seconds_of_sessions(sessions), at=time.monotonic())
            print(msgspec.json.encode(seen).decode(), flush=True)

    case = CASES[name]
    job = Job("bench", checkpointing_interval=0, checkpointing_dir=folder, parallelism=2, listeners=[listen])
    records = job.source("source", KafkaSource(servers, topics=[source], max_rows=int(events), value=JSON(EVENT)))
    sink = KafkaSink("sink", servers, topic=out, key="key")
    job.query("query", case.query(records.select("value.*")), mode=case.mode, sinks=[sink])
    job.run(until="caught-up")


if __name__ == "__main__":
    main()
