"""Holds the files of a savepoint: those of each query's snapshot, and the lines of the ingest logs behind it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.ingest_part import bring_parts, link_logs
from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.errors import TidegateError
from tidegate.core.records import DoneEpoch, SavedQuery
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.hold import RunningQuery, hold, newest_done
from tidegate.savepoints.query import saved_query
from tidegate.savepoints.running_job import Checkpoint, CheckpointAborted, RunningJob, refused
from tidegate.storages.schemes import Folder

_ATTEMPTS = 3


def held_queries(job: RunningJob, held: Path, copying: Copying) -> list[SavedQuery]:
    """Hold the files below `held`, and describe each query. Raises SAVEPOINT_REFUSED, SAVEPOINT_CUT_OFF, and storage
    errors.
    """
    ingest, aside = job.folder / INGEST, held / "logs"
    link_logs(ingest, aside)  # before the queries, so that all lines after their epochs are included
    queries = _held_each(job, held, copying)
    bring_parts(ingest, [query.done for query in queries], held / INGEST, aside, copying.go_on)
    remove_folder(aside)
    return queries


def _held_each(job: RunningJob, held: Path, copying: Copying) -> list[SavedQuery]:
    """Each query on its own; with channels, the snapshots of one checkpoint. It is begun again if files are gone."""
    if job.checkpoint is None:
        return [_held_query(job, each, held, copying) for each in job.queries]
    gone: list[str] = []
    while len(gone) < _ATTEMPTS:
        try:
            return _held_together(job, job.checkpoint, held, copying)
        except CheckpointAborted:
            continue
        except _FilesGone as of_query:
            gone.append(str(of_query))
    raise _not_held(job, gone[-1])


def _held_together(job: RunningJob, checkpoint: Checkpoint, held: Path, copying: Copying) -> list[SavedQuery]:
    running = {each.query.uid: each for each in job.queries}
    with checkpoint(copying.go_on) as snapshots:
        found = {
            done.query: _held_snapshot(job, running[done.query], held, snapshots.go_on, done) for done in snapshots
        }
    return [found[uid] for uid in running]


class _FilesGone(Exception):
    """Spark has removed files of the query's epoch before they were held."""


def _held_query(job: RunningJob, running: RunningQuery, held: Path, copying: Copying) -> SavedQuery:
    for _ in range(_ATTEMPTS):
        done = newest_done(running)
        if done is not None:
            with suppress(_FilesGone):
                return _held_snapshot(job, running, held, copying.go_on, done)
    raise _not_held(job, running.query.uid)


def _held_snapshot(
    job: RunningJob, running: RunningQuery, held: Path, go_on: Callable[[], None], done: DoneEpoch
) -> SavedQuery:
    """Raises _FilesGone."""
    folder = held / "queries" / running.query.uid / "spark"
    remove_folder(folder)
    folder.mkdir(parents=True)
    if not hold(running, done, Folder.of(folder), go_on):
        raise _FilesGone(running.query.uid)
    return _with_time_left(job, saved_query(done, folder))


def _not_held(job: RunningJob, query: str) -> TidegateError:
    return refused(
        job,
        f"a done epoch of query {query} whose files stay until they are held",
        "none in three attempts: none is done yet, or Spark removed files meanwhile",
    )


def _with_time_left(job: RunningJob, query: SavedQuery) -> SavedQuery:
    """Return `query`. Raises SAVEPOINT_REFUSED if it was drained and no drain was requested: its watermark is the end
    of time, so every later row would be too late.
    """
    if query.watermark_ms >= END_OF_TIME_MS and not job.is_drained:
        found = "it was drained: every row after its savepoint would be too late"
        raise refused(job, f"query {query.done.query} before the end of time", found)
    return query


def remove_folder(folder: Path) -> None:
    """Remove a folder. A copy that was canceled may remove its own at the same time."""
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            if folder.exists():
                shutil.rmtree(folder)
            return
