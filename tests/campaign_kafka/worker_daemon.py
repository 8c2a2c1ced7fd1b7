"""Spark's Python worker daemon with its imports done: a worker that replaces a killed one starts at once."""

from __future__ import annotations

from pyspark.daemon import manager

import tests.campaign.worker_daemon
import tests.campaign_kafka.program
import tidegate.sinks.kafka.sink
import tidegate.sources.kafka.reading
import tidegate.spark.sources.kafka

LOADED = (
    tests.campaign.worker_daemon,
    tests.campaign_kafka.program,
    tidegate.sources.kafka.reading,
    tidegate.sinks.kafka.sink,
    tidegate.spark.sources.kafka,
)

if __name__ == "__main__":
    manager()
