"""Reads a source that cannot be read again through an ingest log: rows are in the log before an epoch can have them.

A *feed* writes the rows of the source to the log while the job runs. The queries read the log, as often as they need.
The part of the log that no reader and no checkpoint needs any more is removed.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidegate.checkpoints.ingest_layout import IngestPosition
from tidegate.checkpoints.ingest_log import IngestLog, LogPart
from tidegate.checkpoints.ingest_logs import open_ingest_log
from tidegate.checkpoints.ingest_read import require_between
from tidegate.checkpoints.retained import retained_from
from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.levels import Level
from tidegate.savepoints.ingest_join import JoinedLog
from tidegate.savepoints.ingest_restore import join
from tidegate.savepoints.ingest_restore_elsewhere import join_elsewhere
from tidegate.sources.feed_thread import Feed
from tidegate.sources.logged import LoggedRows
from tidegate.sources.refusals import other_source
from tidegate.spark.companions import Companion
from tidegate.spark.session import is_local
from tidegate.spark.sources.python_stream import Place, StreamPositions, python_stream
from tidegate.spark.sources.refusals import CHECKPOINTS_ELSEWHERE, not_local, outside_a_job
from tidegate.spark.sources.source import Ground, Monitor, OpenedSource, PositionedSource, SourceUse
from tidegate.spark.telling import WORD, told_by_source
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")


class IngestedSource(PositionedSource):
    """A source with an ingest log, as the job sees it."""

    writes = True

    @abstractmethod
    def rows(self, session: SparkSession, where: str) -> LoggedRows:
        """The object that converts the log into rows. Raises if the source cannot be used for a start."""

    @abstractmethod
    def feed(self, log: IngestLog, ground: Ground) -> Feed:
        """The feed that fills the log during one start of the job."""

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        return self.frame(session, where, None, None)

    def require_reach(self, session: SparkSession, folder: Folder, where: str) -> None:
        """Raise SOURCE_LOCAL_ONLY if the tasks of this session cannot read a log below `folder`, that of the job."""
        if folder.is_local and not is_local(session):
            raise not_local(str(session.sparkContext.master), "the ingest log", where, CHECKPOINTS_ELSEWHERE)

    def frame(
        self, session: SparkSession, where: str, log: IngestLog | None, begin: IngestPosition | None
    ) -> DataFrame:
        """The stream of this log, from position `begin`. If both are None: the stream that the program builds its
        queries on.
        """
        rows = self.rows(session, where)
        positions = partial(IngestPositions, where, log, begin)
        schema = from_arrow_schema(rows.schema)
        return python_stream(session, "tidegate-ingest", schema, positions, LoggedRowsOfTask(rows, WORD))

    def opened(self, ground: Ground) -> OpenedSource:
        return OpenedIngest(self, ground)

    def looked_at(self, ground: Ground) -> OpenedSource:
        uid, ingest = ground.folder.name, ground.folder.parent
        if ingest.is_local:
            joined = join(uid, ingest.local(), ground.saved, ground.where)
        else:
            joined = join_elsewhere(uid, ingest, ground.saved, ground.where)
        return JudgedIngest(self, joined, ground)


class OpenedIngest(OpenedSource, Companion):
    """The log of one source during one start of its job, its feed, and the newest position that may be removed from it.

    In a run until `caught-up` the feed does not start: the job processes the rows in the log.
    """

    def __init__(self, source: IngestedSource, ground: Ground) -> None:
        self._source = source
        self._ground = ground
        self._log = open_ingest_log(ground.folder)
        self._feed = source.feed(self._log, ground)
        self._kept = KeptInput(ground.readers, ground.retained + _EPOCHS_TO_SPARE)

    def begin(self, where: str, level: Level, generation: int) -> str:
        return _text(self._log.end if level is Level.AT_MOST_ONCE else self._log.begin)

    def compare(self, where: str, reached: str) -> None:
        self._log.require(_begun(reached, where), where)

    def bound(self, session: SparkSession, use: SourceUse) -> DataFrame:
        return self._source.frame(session, use.where, self._log, _begun(use.position, use.where))

    def monitor(self, name: str) -> Monitor | None:
        return Trimmer(name, self._kept, self._log, self._ground.folder)

    def companion(self) -> Companion:
        return self

    def end_input(self) -> None:
        self._feed.close()

    def keep_input(self) -> AbstractContextManager[None]:
        return self._kept.all()

    def close(self) -> None:
        self._feed.close()
        self._log.close()

    def started(self, job: object) -> None:
        if not self._ground.bounded:
            self._feed.start()

    def ended(self, error: BaseException | None) -> None:
        self.close()  # what a cancelled job leaves may be removed from here on

    def look(self) -> None:
        if self._feed.error is not None:
            raise self._feed.error


class JudgedIngest(OpenedSource):
    """The log of a savepoint: a restored job will resume from it. Used while the restore is checked; writes nothing."""

    def __init__(self, source: IngestedSource, joined: JoinedLog, ground: Ground) -> None:
        self._source = source
        self._joined = joined
        self._ground = ground

    def begin(self, where: str, level: Level, generation: int) -> str:
        return _text(self._joined.begin)

    def compare(self, where: str, reached: str) -> None:
        wanted = _begun(reached, where)
        require_between(self._joined.begin, self._joined.end, wanted, f"{where}, {self._ground.folder}")

    def bound(self, session: SparkSession, use: SourceUse) -> DataFrame:
        return self._source.frame(session, use.where, None, None)

    def monitor(self, name: str) -> Monitor | None:
        return None

    def joined(self) -> JoinedLog:
        return self._joined


class KeptInput:
    """The end positions of the newest done epochs of every reader. Rows before all of them are not needed any more.

    For each reader counting begins at the start: until it has done enough epochs in this run, no row is removed. While
    a savepoint collects its files, none is: it needs the rows behind the newest done epochs. A removal that had begun
    before that stops before these.
    """

    def __init__(self, readers: frozenset[str], epochs: int) -> None:
        self._ends = {reader: deque[IngestPosition](maxlen=epochs) for reader in readers}
        self._epochs = epochs
        self._savepoints = 0
        self._lock = Lock()

    def done(self, reader: str, end: IngestPosition) -> IngestPosition | None:
        """Record the end of a reader's epoch.

        Returns the begin of the oldest epoch that is needed; None if it is not known.
        """
        with self._lock:
            self._ends[reader].append(end)
            if self._savepoints or any(len(ends) < self._epochs for ends in self._ends.values()):
                return None
            return min((ends[0] for ends in self._ends.values()), key=lambda position: position.offset)

    @contextmanager
    def all(self) -> Generator[None]:
        """In this context no row is removed."""
        with self._lock:
            self._savepoints += 1
        try:
            yield
        finally:
            with self._lock:
                self._savepoints -= 1


class Trimmer:
    """Removes the part of a log that no reader and no retained checkpoint needs. One reader's epochs trigger it.

    A failure is logged as a warning.
    """

    def __init__(self, reader: str, kept: KeptInput, log: IngestLog, folder: Folder) -> None:
        self._reader = reader
        self._kept = kept
        self._log = log
        self._folder = folder
        self._done: IngestPosition | None = None

    def tell(self, positions: Sequence[str]) -> None:
        self._done = min((parsed(each, IngestPosition) for each in positions), key=lambda position: position.offset)
        needed = self._kept.done(self._reader, self._done)
        if needed is not None and self._log.is_worth_a_trim(needed):
            try:
                retained = retained_from(self._folder.parent.parent, self._folder.name)
                self._log.trim(min([needed, *retained], key=lambda position: position.offset))
            except TidegateError as error:
                _LOG.warning("source %s: the ingest log is not trimmed (%s)", self._reader, error)

    def behind(self) -> int | None:
        return None if self._done is None else max(0, self._log.end.line - self._done.line)

    def close(self) -> None:
        """Does nothing: the log is closed with the job."""


class IngestPositions(StreamPositions):
    """The positions of an ingest log. `log` and `begin` are None outside of a query."""

    def __init__(self, where: str, log: IngestLog | None, begin: IngestPosition | None) -> None:
        """Raises SOURCE_OPTION for a query that is not of a job."""
        if log is None or begin is None:
            raise outside_a_job(where)
        self._log = log
        self._begin = begin
        self._where = where
        self._last: IngestPosition | None = None
        self._is_checked = False

    def first(self) -> Place:
        return msgspec.to_builtins(self._begin)

    def catch_up(self) -> None:
        self._last = self._log.end

    def after(self, start: Place) -> Place:
        if not self._is_checked:
            self._log.require(_position(start), self._where)
            self._is_checked = True
        return msgspec.to_builtins(self._last or self._log.end)

    def parts(self, start: Place, end: Place) -> Sequence[LogPart]:
        return self._log.parts(_position(start), _position(end), self._where)


@dataclass(frozen=True, slots=True)
class LoggedRowsOfTask:
    """Reads one part of an ingest log in a task. `word`: the random word of the driver's mark for errors."""

    rows: LoggedRows
    word: str

    def __call__(self, wanted: LogPart) -> Iterator[pa.RecordBatch]:
        with told_by_source(self.word):
            for frame in wanted.frames():
                yield from self.rows.batches(frame)


def _position(offset: Mapping[str, Any]) -> IngestPosition:
    return msgspec.convert(offset, type=IngestPosition)


def _begun(position: str, where: str) -> IngestPosition:
    try:
        return parsed(position, IngestPosition)
    except Unreadable:
        raise other_source("this source with durable=True", position, where) from None


def _text(position: IngestPosition) -> str:
    return msgspec.json.encode(position).decode()


_EPOCHS_TO_SPARE = 2
"""Done epochs that are kept beyond the retained ones: the newest may not be among those yet, and one more."""
