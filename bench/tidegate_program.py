"""The job that `flink_program.py` is compared with, in a session of its own.

    python -m bench.tidegate_program map|count sql|python exactly-once|at-least-once SERVERS SOURCE OUT FOLDER

All other settings but the interval are the defaults; the state is kept in RocksDB.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.kafka_cluster import EVENT
from tidegate import JSON, Job, KafkaSink, KafkaSource


def _doubled(amounts: pa.Array) -> pa.Array:
    return pc.multiply(amounts, pa.scalar(2, pa.int32()))


def _by_python(amount: Column) -> Column:
    function: Any = F.arrow_udf
    return function(_doubled, "int")(amount)


def _mapped(events: DataFrame, twice: Column) -> DataFrame:
    return events.select("id", "key", twice.alias("twice"), "text")


def _counted(events: DataFrame, twice: Column) -> DataFrame:
    changed = events.select("key", twice.alias("twice"))
    return changed.groupBy("key").agg(F.count("*").alias("count"), F.sum("twice").alias("sum"))


_TWICE: Mapping[str, Callable[[Column], Column]] = {"sql": lambda amount: amount * 2, "python": _by_python}
_WORKS: Mapping[str, tuple[Callable[[DataFrame, Column], DataFrame], Literal["append", "update"]]] = {
    "map": (_mapped, "append"),
    "count": (_counted, "update"),
}


def main() -> None:
    work, way, level, servers, source, out, folder = sys.argv[1:]
    query, mode = _WORKS[work]
    job = Job("bench", checkpointing_interval=1, checkpointing_mode=level, checkpointing_dir=folder)
    records = job.source("source", KafkaSource(servers, topics=[source], value=JSON(EVENT)))
    sink = KafkaSink("sink", servers, topic=out, key="key")
    job.query("query", query(records.select("value.*"), _TWICE[way](F.col("amount"))), mode=mode, sinks=[sink])
    job.run(until="caught-up")


if __name__ == "__main__":
    main()
