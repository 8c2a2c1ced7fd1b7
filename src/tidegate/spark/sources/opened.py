"""Tidegate's own sources during one start of a job: opened, or only inspected while a restore is checked."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from pyspark.sql import SparkSession

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.job_layout import QUERIES, generations, retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.checkpoints.succession import standing
from tidegate.core.channel_parts import ALL_LIVE, LiveParts
from tidegate.core.ledger import position_of
from tidegate.core.spark_log import parse_offsets
from tidegate.savepoints.restored import live_parts
from tidegate.settings.config import Settings
from tidegate.spark.generations import begun_at
from tidegate.spark.query_conf import epochs_kept, query_conf
from tidegate.spark.restoring import JobRestore
from tidegate.spark.sources.source import Ground, OpenedSource, PositionedSource, query_of
from tidegate.spark.supervised import start_moves
from tidegate.spark.until import Until
from tidegate.storages.schemes import Folder


def grounds_of(
    job: str,
    session: SparkSession,
    folder: Folder,
    readers: Mapping[str, frozenset[str]],
    settings: Settings,
    until: Until,
    restore: JobRestore | None,
) -> dict[str, Ground]:
    """For each source that queries read, by uid: what this start gives it."""
    kept = epochs_kept(query_conf(settings))
    return {
        uid: Ground(
            session=session,
            folder=folder / INGEST / uid,
            where=f"job {job}, source {uid}",
            readers=names,
            retained=settings.checkpointing_retained,
            epochs_kept=kept,
            bounded=until is Until.CAUGHT_UP,
            oldest=partial(oldest_positions, folder, names),
            saved=None if restore is None else restore.saved_log(uid),
            live=partial(_live, folder, restore),
        )
        for uid, names in readers.items()
        if names
    }


def _live(folder: Folder, restore: JobRestore | None) -> LiveParts:
    if restore is not None:
        return LiveParts(restore.target.generation, restore.savepoint.in_flight)
    record = standing(folder)
    return ALL_LIVE if record is None else live_parts(folder, record)


def oldest_positions(folder: Folder, readers: Iterable[str]) -> dict[str, Sequence[str | None]]:
    """For each reader, the positions of its query's sources in the oldest retained checkpoint of the present
    generation.

    Empty while a checkpoint of an older generation is retained, because that has other positions.
    """
    numbers = retained_numbers(folder)
    record = read_retained(folder, numbers[0]) if numbers else None
    found: dict[str, Sequence[str | None]] = {}
    for done in () if record is None else record.queries:
        offsets = parse_offsets(done.offsets)
        if offsets is not None and done.generation == max(generations(folder / QUERIES / done.query), default=0):
            found.update({name: offsets.positions for name in readers if query_of(name) == done.query})
    return found


def open_sources(
    sources: Mapping[str, PositionedSource], grounds: Mapping[str, Ground], stack: ExitStack, restore: JobRestore | None
) -> dict[str, OpenedSource]:
    """Open the sources in `grounds`, by uid; `stack` closes them. For a restore, inspect them and write nothing."""
    opened: dict[str, OpenedSource] = {}
    for uid, ground in grounds.items():
        source = sources[uid]
        opened[uid] = source.opened(ground) if restore is None else source.looked_at(ground)
        stack.callback(opened[uid].close)
        start_moves(f"source {uid}, opened")
    return opened


def recall(source: PositionedSource, uid: str, folder: Folder) -> None:
    """Give a source its position in the job's newest *start* in this folder."""
    begun = begun_at(folder, uid)
    if begun is not None:
        source.recall(position_of(begun))


def verify_read(opened: Mapping[str, OpenedSource], readers: Mapping[str, str]) -> None:
    """Called after the tasks of an epoch. Raises if they have read something else than the epoch's input.

    `readers`: for each source, the name of the query's reading.
    """
    for uid, reader in readers.items():
        if uid in opened:
            opened[uid].verify(reader)


def end_input(sources: Iterable[OpenedSource]) -> None:
    """Stop taking in new rows. Called when every query has ended."""
    for source in sources:
        source.end_input()


@contextmanager
def keep_input(sources: Iterable[OpenedSource]) -> Generator[None]:
    """A savepoint collects its files: no source removes a row that it needs."""
    with ExitStack() as stack:
        for source in sources:
            stack.enter_context(source.keep_input())
        yield
