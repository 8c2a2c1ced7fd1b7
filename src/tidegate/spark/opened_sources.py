"""Tidegate's own sources during one start of a job: opened, or only looked at while a restore is judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.spark.restoring import JobRestore
from tidegate.spark.sources import Ground, OpenedSource, PositionedSource
from tidegate.spark.supervised import start_moves


def grounds_of(
    job: str,
    folder: Path,
    readers: Mapping[str, frozenset[str]],
    retained: int,
    bounded: bool,
    restore: JobRestore | None,
) -> dict[str, Ground]:
    """What the start gives each source that has readers, by uid."""
    return {
        uid: Ground(
            folder=folder / INGEST / uid,
            where=f"job {job}, source {uid}",
            readers=names,
            retained=retained,
            bounded=bounded,
            saved=None if restore is None else restore.saved_log(uid),
        )
        for uid, names in readers.items()
        if names
    }


def open_sources(
    sources: Mapping[str, PositionedSource], grounds: Mapping[str, Ground], stack: ExitStack, *, only_look: bool
) -> dict[str, OpenedSource]:
    """The sources that have a ground, by uid, until `stack` ends. `only_look`: nothing is written."""
    opened: dict[str, OpenedSource] = {}
    for uid, ground in grounds.items():
        source = sources[uid]
        opened[uid] = source.looked_at(ground) if only_look else source.opened(ground)
        stack.callback(opened[uid].close)
        start_moves(f"source {uid}, opened")
    return opened


def end_input(sources: Iterable[OpenedSource]) -> None:
    """Every query has ended: nothing more is taken in."""
    for source in sources:
        source.end_input()
