"""How the contract suite reads a source: as a query of a job does, but without Spark."""

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidegate.checkpoints.ingest_layout import IngestPosition as LogPosition
from tidegate.checkpoints.ingest_log import IngestLog
from tidegate.checkpoints.ingest_logs import open_ingest_log
from tidegate.sources.base import Begins, RowSource, ranges
from tidegate.sources.ends import RowEnds
from tidegate.sources.feed import RowsFeed
from tidegate.sources.feed_thread import Feed
from tidegate.sources.logged import ArrowRows, LoggedRows
from tidegate.storages.schemes import Folder
from tidegate.testing.contract_parts import Row

ReadingPlace = Mapping[str, Any]
"""A position as it stands in a checkpoint: a JSON object."""


class SourceReading(ABC):
    """A source as one query reads it. Positions are converted to JSON and back, as in a checkpoint."""

    @abstractmethod
    def begin(self, where: Begins) -> ReadingPlace:
        """The position where a query without a checkpoint begins. `where`: `Begins.OLDEST` or `Begins.NEWEST`."""

    @abstractmethod
    def end(self, start: ReadingPlace) -> ReadingPlace:
        """The end of the epoch that begins at `start`; `start` itself if there are no new rows."""

    @abstractmethod
    def rows(self, start: ReadingPlace, end: ReadingPlace) -> list[Row]:
        """The rows between two positions, in the order of reading."""

    @abstractmethod
    def stop(self) -> None:
        """Read no row that arrives from now on."""

    def close(self) -> None:
        """Close the source at the end of the job."""


class DirectReading(SourceReading):
    """The reading of a `RowSource` that can be read again. Each call reads with a new object, as in another process."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self._ends = RowEnds(source, "the contract suite", clock=_never_idle())

    def begin(self, where: Begins) -> ReadingPlace:
        return _through_json(self._source.newest() if where is Begins.NEWEST else self._source.oldest())

    def end(self, start: ReadingPlace) -> ReadingPlace:
        return _through_json(self._ends.after(start))

    def rows(self, start: ReadingPlace, end: ReadingPlace) -> list[Row]:
        other: RowSource = pickle.loads(pickle.dumps(self._source))
        wanted = [part for each in ranges(start, end) for part in other.split(each)]
        return [row for each in wanted for batch in other.read(each) for row in batch.to_pylist()]

    def stop(self) -> None:
        self._ends.catch_up()

    def close(self) -> None:
        self._source.close()


class LoggedReading(SourceReading):
    """The reading of a source through an ingest log, as with `durable=True`."""

    def __init__(self, log: IngestLog, feed: Feed, rows: LoggedRows) -> None:
        """`log` is open, and `feed` fills it. `rows`: reads the rows back from the log."""
        self._log = log
        self._feed = feed
        self._rows = rows
        feed.start()

    @staticmethod
    def of(source: RowSource, folder: Path) -> LoggedReading:
        """A reading of `source` through a new ingest log in `folder`."""
        log = open_ingest_log(Folder.of(folder))
        feed = RowsFeed(source, log, "the contract suite")
        return LoggedReading(log, feed, ArrowRows(source.schema(), "the contract suite"))

    @property
    def error(self) -> Exception | None:
        """The error that ended the feed; None if it runs or was closed."""
        return self._feed.error

    def begin(self, where: Begins) -> ReadingPlace:
        return msgspec.to_builtins(self._log.end if where is Begins.NEWEST else self._log.begin)

    def end(self, start: ReadingPlace) -> ReadingPlace:
        return msgspec.to_builtins(self._log.end)

    def rows(self, start: ReadingPlace, end: ReadingPlace) -> list[Row]:
        begin, until = msgspec.convert(start, LogPosition), msgspec.convert(end, LogPosition)
        if begin.offset >= until.offset:
            return []
        wanted = self._log.parts(begin, until, "the contract suite")
        frames = [frame for each in wanted for frame in each.frames()]
        return [row for frame in frames for batch in self._rows.batches(frame) for row in batch.to_pylist()]

    def stop(self) -> None:
        self._feed.close()

    def close(self) -> None:
        self._feed.close()
        self._log.close()


def _through_json(position: ReadingPlace) -> ReadingPlace:
    return json.loads(json.dumps(dict(position)))


def _never_idle() -> Any:
    """A clock that jumps far ahead at each call, so that no answer of the source is reused from a cache."""
    hours = iter(range(0, 1 << 60, 3600))
    return lambda: float(next(hours))
