"""Numbers of a topic into a topic, and counted by key into another one.

Arguments: the servers of Kafka, three topics (numbers, copies, counts), the folder of the checkpoints. The session is
that of SPARK_CONF_DIR, and of the command line. With a sixth argument other than `caught-up` the job does not end by
itself.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import functions as F

from tidegate import Job, KafkaSink, KafkaSource, uid


def main(servers: str, numbers: str, copies: str, counts: str, checkpoints: str, until: str = "caught-up") -> None:
    job = Job("cluster", checkpointing_dir=checkpoints, checkpointing_interval=0, lease_timeout="8s", parallelism=2)
    source = KafkaSource(servers, topics=[numbers], max_rows=60)
    rows = job.source("numbers", source).select(F.col("value").cast("string").alias("number"))
    job.query("copy", rows, sinks=[KafkaSink("copies", servers, topic=copies)])
    by_digit = uid("digits", rows.groupBy(F.substring("number", -1, 1).alias("digit")).count())
    job.query("count", by_digit, mode="update", sinks=[KafkaSink("counts", servers, topic=counts, key="digit")])
    started = time.monotonic()
    job.run(until="caught-up" if until == "caught-up" else None)
    print(f"done after {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
