"""One benchmark in a process of its own: `python -m bench.child NAME --out FILE`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from bench import (
    barrier_cost,
    barrier_modes,
    channel_throughput,
    environments,
    epochs,
    file_source,
    job_long,
    job_restarts,
    job_supervisor,
    kafka_epochs,
    kafka_flink,
    kafka_long,
    kafka_other,
    kafka_throughput,
    memory,
    page,
    page_load,
    savepoint_canonical,
    savepoint_copy,
    savepoint_epochs,
    scale_files,
    scale_kafka,
    scale_queries,
    scale_snapshot,
    scale_state,
    simulation,
    sink_delta,
    sink_iceberg,
    sink_mariadb,
    sink_postgres,
    sink_redis,
    sink_write_ahead,
    start,
    storage_cluster,
    storage_epochs,
    storage_growth,
    storage_savepoint,
    throughput,
)
from bench.figures import Figure

Measure = Callable[..., list[Figure]]
CORE: Mapping[str, Measure] = {
    **{name: partial(epochs.measure, name) for name in epochs.CASES},
    **{name: partial(throughput.measure, name) for name in throughput.CASES},
    **{name: partial(file_source.measure, name) for name in file_source.CASES},
    "memory": memory.measure,
    "simulation": simulation.measure,
}
FLINK: Mapping[str, Measure] = {name: partial(kafka_flink.measure, name) for name in kafka_flink.CASES}
KAFKA: Mapping[str, Measure] = {
    **{name: partial(kafka_throughput.measure, name) for name in kafka_throughput.CASES},
    "kafka-epoch": kafka_epochs.measure_sink,
    "kafka-visible": kafka_epochs.measure_visible,
}
OTHER: Mapping[str, Measure] = {name: partial(kafka_other.measure, name) for name in kafka_other.CASES}
LONG: Mapping[str, Measure] = {"kafka-long": kafka_long.measure}
START: Mapping[str, Measure] = start.CASES
JOB: Mapping[str, Measure] = {
    **{name: partial(job_restarts.measure, name) for name in job_restarts.STRIKES},
    "job-supervisor": job_supervisor.measure,
    "job-long": job_long.measure,
}
SAVEPOINT: Mapping[str, Measure] = {
    "savepoint-copy": savepoint_copy.measure,
    "savepoint-canonical": savepoint_canonical.measure,
    "savepoint-epochs": savepoint_epochs.measure,
}
SCALE: Mapping[str, Measure] = {
    **{name: partial(scale_state.measure, name) for name in scale_state.CASES},
    "scale-snapshot": scale_snapshot.measure,
    "scale-partitions": scale_kafka.measure_partitions,
    "scale-queries": scale_queries.measure,
    "scale-files": scale_files.measure,
    "scale-workers": scale_kafka.measure_memory,
}
STORAGE: Mapping[str, Measure] = {
    "storage-epochs": storage_epochs.measure,
    "storage-growth": storage_growth.measure,
    "storage-savepoint": storage_savepoint.measure,
    "storage-cluster": storage_cluster.measure,
}
BARRIERS: Mapping[str, Measure] = {
    "barrier-cost": barrier_cost.measure,
    "barrier-modes": barrier_modes.measure,
    "channel-throughput": channel_throughput.measure_throughput,
    "channel-latency": channel_throughput.measure_latency,
}
SINKS: Mapping[str, Measure] = {
    **{f"sink-postgres-{each}": partial(sink_postgres.measure_append, each) for each in sink_postgres.GOALS},
    "sink-postgres-readers": sink_postgres.measure_readers,
    "sink-postgres-growth": sink_postgres.measure_growth,
    "sink-mariadb-staged": sink_mariadb.measure,
    **{f"sink-redis-{each}": partial(sink_redis.measure, each) for each in sink_redis.BASELINES},
    "sink-delta": sink_delta.measure,
    "sink-iceberg": sink_iceberg.measure,
    "sink-write-ahead": sink_write_ahead.measure,
}
PAGE: Mapping[str, Measure] = {"page-views": page.measure, "page-load": page_load.measure}
SUITES: Mapping[str, Mapping[str, Measure]] = {
    "core": CORE,
    "kafka": KAFKA,
    "flink": FLINK,
    "other": OTHER,
    "long": LONG,
    "start": START,
    "job": JOB,
    "savepoint": SAVEPOINT,
    "scale": SCALE,
    "storage": STORAGE,
    "barriers": BARRIERS,
    "sinks": SINKS,
    "page": PAGE,
}
MEASURES: Mapping[str, Measure] = {name: measure for suite in SUITES.values() for name, measure in suite.items()}
NEEDS: Mapping[str, environments.Environment] = {
    **dict.fromkeys(FLINK, environments.FLINK),
    **{name: case.needs for name, case in kafka_other.CASES.items() if case.needs is not None},
}
"""Those that need another system, which has an environment of its own."""
COLD = frozenset([*FLINK, *OTHER])
"""Those that start tidegate as its users do: with the archive of Spark's classes."""
ON_REQUEST = frozenset({scale_state.ON_REQUEST})
"""Those that a suite runs only if `--only` names them."""
OF_ANY_LENGTH = frozenset({"job-long"})
"""Those that can be told how many epochs to run for."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(MEASURES))
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    before = os.getloadavg()[0]
    length = {"epochs": asked.epochs} if asked.name in OF_ANY_LENGTH else {}
    found = MEASURES[asked.name](asked.rounds, quick=asked.quick, **length)
    load = (round(before, 2), round(os.getloadavg()[0], 2))
    asked.out.write_bytes(msgspec.json.encode([msgspec.structs.replace(figure, load=load) for figure in found]))


if __name__ == "__main__":
    main()
