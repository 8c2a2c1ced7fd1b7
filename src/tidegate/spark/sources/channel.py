"""The stream of a channel: its positions are found on the driver, its rows are read in the tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.channels.channel import Channel, Shares
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.channel_parts import (
    ALL_LIVE,
    ChannelPosition,
    LiveParts,
    in_flight,
    is_behind,
    is_part_of,
    least,
    position_in,
)
from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import parsed
from tidegate.core.levels import Level
from tidegate.core.spark_log import positions_of
from tidegate.sources.base import goes_back
from tidegate.sources.refusals import other_source
from tidegate.spark.arrow_schema import arrow_schema
from tidegate.spark.sources.python_stream import Place, StreamPositions, python_stream
from tidegate.spark.sources.refusals import outside_a_job
from tidegate.spark.sources.source import Ground, Monitor, OpenedSource, PositionedSource, SourceUse, query_of
from tidegate.spark.telling import WORD, told_by_source
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")
_EPOCHS_TO_SPARE = 2


class ChannelSource(PositionedSource):
    """What is read of a channel. `schema`: the columns of its rows."""

    def __init__(self, channel: Channel, schema: StructType) -> None:
        self.channel = channel
        self.schema = schema

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        return self.stream(session, where, None)

    def opened(self, ground: Ground) -> OpenedSource:
        return OpenedChannel(self, ground)

    def stream(
        self,
        session: SparkSession,
        where: str,
        begin: ChannelPosition | None,
        live: LiveParts = ALL_LIVE,
        reader: str = "",
    ) -> DataFrame:
        """The rows of the live parts from a position on. None: outside of a query. `reader`: the uid of the query."""
        context = session.sparkContext

        def cores() -> int:
            return context.defaultParallelism  # asked for each epoch: executors come and go

        positions = partial(ChannelPositions, self.channel, where, begin, cores, live, reader)
        rows = self.channel.rows(arrow_schema(self.schema), where)
        return python_stream(session, "tidegate-channel", self.schema, positions, _Told(rows, WORD))


class OpenedChannel(OpenedSource):
    """The reading of a channel during one start of its job."""

    def __init__(self, source: ChannelSource, ground: Ground) -> None:
        self._source = source
        self._ground = ground
        self._channel = source.channel
        self._channel.passed.begin(ground.readers, ground.retained + _EPOCHS_TO_SPARE)

    def begin(self, where: str, level: Level, generation: int) -> str:
        return msgspec.json.encode(self._channel.begin_of(generation)).decode()

    def compare(self, where: str, reached: str) -> None:
        """What a checkpoint has read of the live parts of a channel must be in the channel."""
        position = self._ground.live().of(position_of(reached, self._channel.uid, where))
        read = {part: at for part, at in position.items() if at}
        back = goes_back(read, self._channel.log.ends)
        if back:
            raise _behind(back, where)

    def bound(self, session: SparkSession, use: SourceUse) -> DataFrame:
        begin = position_of(use.position, self._channel.uid, use.where)
        return self._source.stream(session, use.where, begin, self._ground.live(), query_of(use.reader))

    def monitor(self, name: str) -> Monitor:
        return ChannelMonitor(
            name,
            self._channel,
            self._ground.live(),
            partial(rows_retained, self._ground.folder.parent.parent, self._channel.uid),
        )


class ChannelMonitor:
    """Lets go of the rows that every reader has passed, and counts those that this reader has not."""

    def __init__(
        self,
        reader: str,
        channel: Channel,
        live: LiveParts,
        retained: Callable[[], Sequence[ChannelPosition]],
    ) -> None:
        """`retained`: returns where the rows begin that the job's retained checkpoints need."""
        self._reader = reader
        self._channel = channel
        self._live = live
        self._retained = retained
        self._newest: ChannelPosition | None = None

    def tell(self, positions: Sequence[str]) -> None:
        end = least([parsed(position, dict[str, int]) for position in positions])
        self._newest = self._live.of(end)
        done, log = self._channel.passed, self._channel.log
        passed = done.done(self._reader, self._live.left(end))
        if passed and log.is_worth_a_trim(least(passed)):
            try:
                held = done.held  # before the manifests: a checkpoint holds its rows until it has its manifest
                needed = [*passed, *held, *self._retained()]
                done.trim(lambda held: log.trim(least([*needed, *held])))  # the least of leasts would lack parts
            except TidegateError as error:
                _LOG.warning("channel %s: no rows were removed (%s)", self._reader, error)

    def behind(self) -> int | None:
        return None if self._newest is None else max(0, self._live.unread(self._newest, self._channel.log.ends))

    def close(self) -> None:
        """Does nothing: the log is closed with the job."""


class ChannelPositions(StreamPositions):
    """The positions of a channel for one query. `begin`: where the query begins; None outside of a query."""

    def __init__(
        self,
        channel: Channel,
        where: str,
        begin: ChannelPosition | None,
        cores: Callable[[], int],
        live: LiveParts = ALL_LIVE,
        reader: str = "",
    ) -> None:
        """Raises SOURCE_OPTION for a query that is not of a job. `cores`: the number of tasks that run at once.
        `reader`: the uid of the query.
        """
        if begin is None:
            raise outside_a_job(where)
        self._channel = channel
        self._where = where
        self._begin = begin
        self._cores = cores
        self._live = live
        self._reader = reader
        self._last: ChannelPosition | None = None

    def first(self) -> Place:
        return self._begin

    def catch_up(self) -> None:
        self._last = dict(self._channel.settled())

    def after(self, start: Place) -> Place:
        end = self._live.of(self._channel.readable() if self._last is None else self._last)
        ends = self._channel.gate.bounded(self._reader, end)
        found = {part: max(ends.get(part, 0), at) for part, at in start.items()}
        return {**found, **{part: at for part, at in ends.items() if part not in start and is_behind(start, part)}}

    def parts(self, start: Place, end: Place) -> Shares:
        return self._channel.shares(start, end, self._cores(), self._where)


@dataclass(frozen=True, slots=True)
class _Told:
    """An error in a task reaches the driver with all its parts. `word`: the random word of the driver's mark."""

    rows: Callable[[Any], Iterator[pa.RecordBatch]]
    word: str

    def __call__(self, wanted: Any) -> Iterator[pa.RecordBatch]:
        with told_by_source(self.word):
            yield from self.rows(wanted)


def rows_retained(job: Folder, channel: str) -> list[ChannelPosition]:
    """For each retained checkpoint of the job and each of its readers that has rows of the channel in flight: where
    they begin, also for a reader that the program has no more. The other rows come again after a restore.
    """
    found: list[ChannelPosition] = []
    records = [read_retained(job, number) for number in retained_numbers(job)]
    for record in (each for each in records if each is not None and each.in_flight):
        for done in record.queries:
            ends = positions_of(done.sources, done.offsets)
            texts = [text for _, text in ends if text is not None]
            positions = [position for text in texts if (position := position_in(text, channel)) is not None]
            barrier = {part: at for part, at in record.in_flight.items() if is_part_of(channel, part)}
            found += [rows for position in positions if (rows := in_flight(position, barrier))]
    return found


def position_of(position: str, channel: str, where: str) -> ChannelPosition:
    """The position in a text of *start* or of a checkpoint. Raises SOURCES_CHANGED if another source wrote it, also
    another channel.
    """
    found = position_in(position, channel)
    if found is None:
        raise other_source(f"channel {channel}", position, where)
    return found


def _behind(back: str, where: str) -> TidegateError:
    return TidegateError(
        Code.OFFSETS_BACKWARDS,
        expected="a channel that still has what was read of it",
        found=f"an older one: {back}",
        where=where,
        next_step="put the job's folder back as it was; or start under another job name or checkpointing.dir",
    )
