"""Checks that the snapshots of a job's queries are one consistent cut: every row of a channel is in it exactly once.

For each channel the position of every reader is compared with the end of the saved epoch of its writer, by the records
of the channel. With aligned barriers and after a stop that followed the graph they are equal. With unaligned barriers
the rows between them are in flight, and belong to the cut. At-least-once a reader may be ahead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.checkpoints.job_layout import CHANNELS, QUERIES, generation_folder
from tidegate.core.barriers import Alignment
from tidegate.core.channel_parts import ALL_LIVE, ChannelPosition, in_flight, position_in
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import START, position_of
from tidegate.core.records import ChannelEpoch, DoneEpoch, JobRecord, Start
from tidegate.core.spark_log import positions_of
from tidegate.savepoints.restored import live_parts
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

EPOCHS = "epochs"
"""The folder of a channel's records."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What is in flight. `ends`: for each part of a channel that has rows behind the position of a reader, the end of
    those that belong to the cut. `rows`: by query, how many it has not read.
    """

    ends: ChannelPosition
    rows: Mapping[str, int]


def demand_cut(
    job_folder: Folder, job: JobRecord, queries: Sequence[DoneEpoch], alignment: Alignment = Alignment.ALIGNED
) -> Cut:
    """Raise SAVEPOINT_REFUSED if these epochs of the queries are no cut across the job's channels."""
    channels = open_storage(job_folder / CHANNELS)
    names = channels.folders("")
    live = live_parts(job_folder, job) if names else ALL_LIVE
    alignments = {query.query: _alignment_of(query, names, alignment) for query in queries}
    flying: dict[str, int] = {}
    rows = Counter[str]()
    for channel in names:
        ends = _ends(channels.below(f"{channel}/{EPOCHS}"), queries)
        for query in queries:
            for source, text in positions_of(query.sources, query.offsets):
                position = position_in(_begin(job_folder, query, source) if text is None else text, channel)
                if position is not None:
                    barrier = live.of(_demanded(job, channel, ends))
                    unread = live.unread(position, barrier)
                    allowed = Alignment.ALIGNED if text is None else alignments[query.query]
                    _compare(job, channel, query.query, unread, allowed)
                    rows[query.query] += max(unread, 0)
                    flying.update({part: barrier[part] for part in in_flight(position, barrier)})
    return Cut(flying, rows)


def _alignment_of(query: DoneEpoch, channels: Iterable[str], alignment: Alignment) -> Alignment:
    """At-least-once a reader of one channel is held all the same: it may not be ahead. A source without a position may
    read another channel.
    """
    if alignment is not Alignment.AT_LEAST_ONCE:
        return alignment
    texts = [text for _, text in positions_of(query.sources, query.offsets)]
    read = [each for each in channels if any(text and position_in(text, each) is not None for text in texts)]
    return Alignment.ALIGNED if len(read) == 1 and None not in texts else alignment


def _begin(job_folder: Folder, query: DoneEpoch, source: str) -> str:
    """The position in *start* of a source without a position in the query's epoch. The source is new since a restore,
    and the query has not read it yet. A further restore begins it anew, at another position: so no row may be unread.
    """
    ledger = open_storage(generation_folder(job_folder / QUERIES / query.query, query.generation))
    start = record_in(ledger, Start, START)
    return "" if start is None else position_of(start.positions.get(source, ""))


def _demanded(job: JobRecord, channel: str, ends: ChannelPosition | None) -> ChannelPosition:
    if ends is None:
        expected = f"where channel {channel} ends with the saved epoch of its writer"
        raise _no_cut(job, expected, "no record of that epoch")
    return ends


def _compare(job: JobRecord, channel: str, query: str, unread: int, alignment: Alignment) -> None:
    if not alignment.allows(unread):
        found = f"rows that it has not read: {unread}" if unread > 0 else f"rows that it has read behind it: {-unread}"
        raise _no_cut(job, f"query {query} to have read channel {channel} to the saved epoch of its writer", found)


def _ends(epochs: Storage, queries: Sequence[DoneEpoch]) -> ChannelPosition | None:
    """Where the channel ends with the saved epoch of its writer; None if that is not known any more, or not yet: a
    driver may have died between the end of the epoch and its record.
    """
    names = sorted((name for name in epochs.list("") if name.isdigit()), reverse=True)
    for name in names:
        record = record_in(epochs, ChannelEpoch, name)
        if record is not None:
            saved = next(((each.generation, each.epoch) for each in queries if each.query == record.query), record.at)
            if record.at == saved or (record.at < saved and not record.is_noted):
                return record.ends
            if record.at < saved:
                return None
    return {} if not names or int(names[-1]) == 0 else None


def _no_cut(job: JobRecord, expected: str, found: str) -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected=expected,
        found=found,
        where=f"job {job.name}",
        next_step=f"start the job if it has ended, and stop it with the savepoint (`tidegate stop {job.name} -p DIR`):"
        " every channel is read to its end first, if stop_timeout is enough",
    )
