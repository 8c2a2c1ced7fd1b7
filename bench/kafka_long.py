"""Ten thousand epochs into Kafka: whether driver and workers keep their size, and the cluster its number of ids.

The job is that of `kafka-epoch`: ten rows an epoch, two tasks, the next epoch at once. It takes about half an hour.

How many transactional ids there may be, follows from how they are given out. A task has a slot of its worker process,
and a slot has two turns, with an id each; a process takes another slot where its first one has served in the same
epoch. Spark runs as many workers at once as there are tasks, and any of them may get all tasks of an epoch: tasks
(workers) x tasks (slots of a worker) x turns, in however many epochs. Evidence has one consumer group an id.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from kafka.protocol.admin.transactions import ListTransactionsRequest

from bench.epochs import SOURCE
from bench.figures import Better, Figure
from bench.growth import Size, driver_growth, size_of, worker_growth
from bench.kafka_cluster import cluster
from bench.kafka_epochs import job_of
from bench.seen import Seen, told
from tidegate.kafka.clients import Clients
from tidegate.kafka.wire import Wire
from tidegate.sinks.kafka.slots import TURNS

EPOCHS = (1000, 10_000)
_QUICK_EPOCHS = (100, 300)
_TASKS = SOURCE["numPartitions"]
_MOST_IDS = _TASKS * _TASKS * TURNS
_PREFIX = "kafka-long-"


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """One run, whatever `rounds` says. Epochs are waited for in legs: a watch over all would itself grow."""
    del rounds
    early, late = _QUICK_EPOCHS if quick else EPOCHS
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, cluster(Path(folder)) as kafka:
        place = Path(folder) / "checkpoints"
        ledger = place / "bench" / "queries" / "query" / "g1" / "ledger"
        sizes: list[Size] = []
        handle = job_of(kafka, kafka.topic("out"), place).start()
        try:
            for epoch in range(early, late + 1, early):
                seen = Seen.of_job(place, epoch)
                with told(seen):
                    seen.wait()
                sizes.append(size_of(kafka.spark, ledger))
        finally:
            handle.stop()
        ids, groups = _left_in(kafka.servers)
    between = f"from epoch {early:,} to {late:,}, into Kafka"
    return [
        *driver_growth(_PREFIX, sizes[0], sizes[-1], between),
        worker_growth(_PREFIX, sizes[0], sizes[-1], between),
        _bounded("ids", f"transactional ids in the cluster after {late:,} epochs of {_TASKS} tasks", len(ids)),
        _bounded("groups", f"consumer groups in the cluster after {late:,} epochs of {_TASKS} tasks", len(groups)),
    ]


def _left_in(servers: str) -> tuple[set[str], set[str]]:
    """All transactional ids, in whatever state, and all consumer groups of the one broker."""
    wire = Wire(Clients(servers))
    try:
        listed = wire.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
        ids, groups = {each.transactional_id for each in listed.transaction_states}, set(wire.groups())
    finally:
        wire.close()
    if not ids or not groups:
        raise ValueError(f"{len(ids)} ids and {len(groups)} groups: error {listed.error_code}, or nothing was written")
    return ids, groups


def _bounded(name: str, what: str, found: int) -> Figure:
    return Figure(
        name=f"{_PREFIX}{name}", what=what, value=float(found), unit=name, better=Better.LOWER, goal=float(_MOST_IDS)
    )
