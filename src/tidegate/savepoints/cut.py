"""Checks that the snapshots of a job's queries are one consistent cut: no row is in a channel, and none is read twice.

For each channel the position of every reader must be where the saved epoch of its writer ends. So it is for the
snapshots of a checkpoint with aligned barriers, and after a stop that followed the graph. The rows of a channel are in
no savepoint.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.checkpoints.job_layout import CHANNELS
from tidegate.core.channel_parts import ChannelPosition, position_in, unread
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import ChannelEpoch, DoneEpoch, JobRecord
from tidegate.core.spark_log import positions_of
from tidegate.savepoints.restored import restored_since
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

EPOCHS = "epochs"
"""The folder of a channel's records."""


def demand_cut(job_folder: Folder, job: JobRecord, queries: Sequence[DoneEpoch]) -> None:
    """Raise SAVEPOINT_REFUSED if these epochs of the queries are no cut across the job's channels."""
    channels = open_storage(job_folder / CHANNELS)
    names = channels.folders("")
    since = restored_since(job_folder, job) if names else 0
    for channel in names:
        ends = _ends(channels.below(f"{channel}/{EPOCHS}"), queries)
        for query in queries:
            for _, text in positions_of(query.sources, query.offsets):
                position = None if text is None else position_in(text, channel)
                if position is not None:
                    _compare(job, channel, query.query, position, ends, since)


def _compare(
    job: JobRecord, channel: str, query: str, position: ChannelPosition, ends: ChannelPosition | None, since: int
) -> None:
    if ends is None:
        raise _no_cut(job, f"the rows of channel {channel} up to the saved epoch of its writer", "newer ones")
    rows = unread(position, ends, since)
    if rows:
        found = f"rows that it has not read: {rows}" if rows > 0 else f"rows that it has read behind it: {-rows}"
        raise _no_cut(job, f"query {query} to have read channel {channel} to the saved epoch of its writer", found)


def _ends(epochs: Storage, queries: Sequence[DoneEpoch]) -> ChannelPosition | None:
    """Where the channel ends with the saved epoch of its writer; None if that is not known any more."""
    names = sorted((name for name in epochs.list("") if name.isdigit()), reverse=True)
    for name in names:
        record = record_in(epochs, ChannelEpoch, name)
        if record is not None and _is_saved(record, queries):
            return record.ends
    return {} if not names or int(names[-1]) == 0 else None


def _is_saved(record: ChannelEpoch, queries: Sequence[DoneEpoch]) -> bool:
    """True if the writer's saved epoch is this one or a later one, and for a writer that the program no longer has."""
    at = [(each.generation, each.epoch) for each in queries if each.query == record.query]
    return not at or (record.generation, record.epoch) <= at[0]


def _no_cut(job: JobRecord, expected: str, found: str) -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected=expected,
        found=found,
        where=f"job {job.name}",
        next_step=f"start the job if it has ended, and stop it with the savepoint (`tidegate stop {job.name} -p DIR`):"
        " every channel is read to its end first, if stop_timeout is enough",
    )
