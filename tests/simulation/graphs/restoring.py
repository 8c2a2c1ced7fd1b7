"""A restore of a retained checkpoint: the older generation of each query is sealed, the next one is put beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.simulation.graphs.graph import Node
from tests.simulation.graphs.query import JOB, LOGGED, folder_of, query_of
from tidegate.checkpoints.job_layout import RESTORES
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.ledger import COMMITS, DECIDED, FINISHED_THROUGH, OFFSETS, RUNS, START, Query, entry
from tidegate.core.records import (
    CheckpointRecord,
    Decided,
    DoneEpoch,
    FinishedThrough,
    JobRecord,
    Restored,
    Run,
    encode,
)
from tidegate.storages.opening import open_storage


def restore(
    checkpoint: CheckpointRecord, older: JobRecord, nodes: Iterable[Node], seal: Callable[[Node], None]
) -> JobRecord:
    """The new generation, which counts when this returns. `seal`: ends the older generation of a query."""
    newer = JobRecord(name=older.name, job_id=older.job_id, generation=older.generation + 1)
    saved = {done.query: done for done in checkpoint.queries}
    for node in nodes:
        seal(node)
        _prepare(query_of(node, newer), saved[node.uid], older.generation)
    restored = Restored(
        job_id=newer.job_id,
        generation=newer.generation,
        savepoint=f"checkpoint {checkpoint.number}",
        digest="",
        at=str(newer.generation),
        epochs={uid: done.epoch for uid, done in saved.items()},
        in_flight=checkpoint.in_flight,
    )
    open_storage(JOB).replace(entry(RESTORES, newer.generation), encode(restored))
    return newer


def _prepare(query: Query, done: DoneEpoch, older: int) -> None:
    """Spark's log up to the saved epoch, and the ledger, as a restore leaves them."""
    storage, number = open_storage(folder_of(query.uid, older + 1)), done.epoch
    newest = max(entry_numbers(open_storage(folder_of(query.uid, older)).list(RUNS)), default=0)
    decided = Decided(
        epoch=number, run=done.run, prepared_digest="restored", offsets=done.offsets, commits=done.commits
    )
    storage.put_if_absent(entry(OFFSETS, number), done.offsets)
    storage.put_if_absent(entry(COMMITS, number), LOGGED)
    storage.put_if_absent(entry(RUNS, newest), encode(Run(run=newest, token="restore", host="", process=0, since="")))
    storage.put_if_absent(entry(DECIDED, number), encode(decided))
    storage.replace(FINISHED_THROUGH, encode(FinishedThrough(epoch=number)))
    storage.put_if_absent(START, encode(query.start(first_epoch=number + 1)))
