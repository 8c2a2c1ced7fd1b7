"""Lines from a TCP server: as Spark reads them, or through an ingest log that keeps them from their arrival on."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidegate.checkpoints.ingest_layout import Position, synced_end
from tidegate.checkpoints.ingest_log import IngestLog
from tidegate.checkpoints.ingest_read import Slice, read_slice, require, require_between, slices
from tidegate.checkpoints.retained import retained_from
from tidegate.checkpoints.tempo import Tempo
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.savepoints.ingest_restore import JoinedLog, join
from tidegate.spark.companions import Companion
from tidegate.spark.session import is_local
from tidegate.spark.sources.source import Ground, Monitor, OpenedSource, PositionedSource, SparkSource
from tidegate.spark.telling import WORD, told_by_source
from tidegate.supervise.receiver import Peer, Receiver

_LOG = logging.getLogger("tidegate")


class SocketSource(SparkSource):
    """Lines (value) from a TCP server. Nothing keeps them, so they cannot be read again: for at-most-once jobs only.

    With `durable=True` they are kept in an ingest log in the job's folder, and every level holds from a line's arrival
    in it on. The connection is then opened again when it ends. A line, of at most `max_line_bytes`, ends with `\\n` or
    `\\r\\n`; bytes that are no UTF-8 stand in the log as they came, and as U+FFFD in `value`.
    """

    def __init__(self, host: str, port: int, *, durable: bool = False, max_line_bytes: int = 1 << 20) -> None:
        super().__init__("socket")
        self.options: Mapping[str, str | int | bool] = {"host": host, "port": port}
        self.ingested = IngestedSocket(host, port, max_line_bytes) if durable else None

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        if self.ingested is not None:
            return self.ingested.load(session, where, level)
        return super().load(session, where, level)


class IngestedSocket(PositionedSource):
    """What a durable socket source is for the job: asked for a start, it is a log and who fills it."""

    writes = True

    def __init__(self, host: str, port: int, max_line_bytes: int) -> None:
        self._host = host
        self._port = port
        self._max_line_bytes = max_line_bytes

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        for expected, found in self._violations():
            raise TidegateError(
                Code.SOURCE_OPTION, expected=expected, found=found, where=where, next_step=f"give {expected}"
            )
        if not is_local(session):
            raise TidegateError(
                Code.SOURCE_LOCAL_ONLY,
                expected="a local master: the tasks read the ingest log from this machine's disk",
                found=f"master {session.sparkContext.master}",
                where=where,
            )
        return _frame(session, where, None, None)

    def opened(self, ground: Ground) -> OpenedSource:
        return SocketIngest(Peer(self._host, self._port, self._max_line_bytes, ground.where), ground)

    def looked_at(self, ground: Ground) -> OpenedSource:
        return JudgedIngest(join(ground.folder.name, ground.folder.parent, ground.saved, ground.where), ground)

    def _violations(self) -> Iterator[tuple[str, str]]:
        if not self._host:
            yield "host= with a name or an address", repr(self._host)
        if not 0 < self._port < 1 << 16:
            yield "port= from 1 to 65535", repr(self._port)
        if not 0 < self._max_line_bytes <= _LINE_BYTES_AT_MOST:
            yield f"max_line_bytes= from 1 to {_LINE_BYTES_AT_MOST}", repr(self._max_line_bytes)


class SocketIngest(OpenedSource, Companion):
    """The log of one source during one start of its job, the receiver that fills it, and how far it may be trimmed.

    A job that ends when it has caught up works off what the log holds, and does not connect.
    """

    def __init__(self, peer: Peer, ground: Ground) -> None:
        self._ground = ground
        self._log = IngestLog(ground.folder)
        self._receiver = Receiver(peer, self._log.append)
        self._kept = Kept(ground.readers, ground.retained + _EPOCHS_TO_SPARE)

    def begin(self, where: str, level: Level) -> str:
        return _text(self._log.end if level is Level.AT_MOST_ONCE else self._log.begin)

    def compare(self, where: str, reached: str) -> None:
        require(self._ground.folder, _begun(reached, where), self._log.end, where)

    def bound(self, session: SparkSession, where: str, position: str, tempo: Tempo, reader: str) -> DataFrame:
        return _frame(session, where, self._ground.folder, _begun(position, where))

    def monitor(self, name: str) -> Monitor | None:
        return Trimmer(name, self._kept, self._log, self._ground.folder)

    def companion(self) -> Companion:
        return self

    def end_input(self) -> None:
        self._receiver.close()

    def close(self) -> None:
        self._receiver.close()
        self._log.close()

    def started(self, job: object) -> None:
        if not self._ground.bounded:
            self._receiver.start()

    def ended(self, error: BaseException | None) -> None:
        self.close()  # what a cancelled job leaves may be removed from here on

    def look(self) -> None:
        if self._receiver.error is not None:
            raise self._receiver.error


class JudgedIngest(OpenedSource):
    """The log that a restored job will resume from, while the restore is judged."""

    def __init__(self, joined: JoinedLog, ground: Ground) -> None:
        self._joined = joined
        self._ground = ground

    def begin(self, where: str, level: Level) -> str:
        return _text(self._joined.begin)

    def compare(self, where: str, reached: str) -> None:
        wanted = _begun(reached, where)
        require_between(self._joined.begin, self._joined.end, wanted, f"{where}, {self._ground.folder}")

    def bound(self, session: SparkSession, where: str, position: str, tempo: Tempo, reader: str) -> DataFrame:
        return _frame(session, where, None, None)

    def monitor(self, name: str) -> Monitor | None:
        return None

    def joined(self) -> JoinedLog:
        return self._joined


class Kept:
    """Where the newest done epochs of every reader end: what lies before all of them is needed by nobody.

    A reader counts from its start on: until it has done so many epochs in this run, everything is kept.
    """

    def __init__(self, readers: frozenset[str], epochs: int) -> None:
        self._ends = {reader: deque[Position](maxlen=epochs) for reader in readers}
        self._epochs = epochs
        self._lock = Lock()

    def done(self, reader: str, end: Position) -> Position | None:
        """Note the end of a reader's epoch; where the oldest one begins that is still needed, None when unknown."""
        with self._lock:
            self._ends[reader].append(end)
            if any(len(ends) < self._epochs for ends in self._ends.values()):
                return None
            return min((ends[0] for ends in self._ends.values()), key=lambda position: position.offset)


class Trimmer:
    """Trims a log behind the epochs of all its readers, and behind the retained checkpoints that are written by then;
    told by one reader. What fails is a warning."""

    def __init__(self, reader: str, kept: Kept, log: IngestLog, folder: Path) -> None:
        self._reader = reader
        self._kept = kept
        self._log = log
        self._folder = folder
        self._done: Position | None = None

    def tell(self, position: str) -> None:
        self._done = msgspec.json.decode(position, type=Position)
        needed = self._kept.done(self._reader, self._done)
        if needed is not None and self._log.has_segments_before(needed):
            try:
                retained = retained_from(self._folder.parent.parent, self._folder.name)
                self._log.trim(min([needed, *retained], key=lambda position: position.offset))
            except TidegateError as error:
                _LOG.warning("source %s: the ingest log is not trimmed (%s)", self._reader, error)

    def behind(self) -> int | None:
        return None if self._done is None else max(0, self._log.end.line - self._done.line)

    def close(self) -> None:
        """Nothing: the log is closed with the job."""


class IngestDataSource(DataSource):
    """What Spark knows of an ingest log. Each use has a subclass of its own."""

    label: ClassVar[str]
    where: ClassVar[str]
    folder: ClassVar[Path | None]
    begin: ClassVar[Position | None]
    word: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.label

    def schema(self) -> str:
        return "value string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if self.folder is None or self.begin is None:
            with told_by_source(self.word):
                raise _not_opened(self.where)
        return IngestStreamReader(self.folder, self.begin, self.where, self.word)


class IngestStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Positions in a process that Spark keeps for the query; `read` in the tasks."""

    def __init__(self, folder: Path, begin: Position, where: str, word: str) -> None:
        self._folder = folder
        self._begin = begin
        self._where = where
        self._word = word
        self._last: Position | None = None
        self._is_checked = False

    def initialOffset(self) -> dict[str, Any]:
        return msgspec.to_builtins(self._begin)

    def prepareForTriggerAvailableNow(self) -> None:
        with told_by_source(self._word):
            self._last = synced_end(self._folder, self._where)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with told_by_source(self._word):
            end = self._last or synced_end(self._folder, self._where)
            if not self._is_checked:
                require(self._folder, _position(start), end, self._where)
                self._is_checked = True
            return msgspec.to_builtins(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with told_by_source(self._word):
            wanted = slices(self._folder, _position(start), _position(end), self._where)
        return [InputPartition(each) for each in wanted]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted: Slice = partition.value
        with told_by_source(self._word):
            for frame in read_slice(wanted):
                values = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in frame.lines()]
                yield pa.RecordBatch.from_arrays([pa.array(values, pa.string())], schema=_ARROW)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark says it before the epoch is decided."""


def _frame(session: SparkSession, where: str, folder: Path | None, begin: Position | None) -> DataFrame:
    label = f"tidegate-ingest-{next(_labels)}"
    members = {"label": label, "where": where, "folder": folder, "begin": begin, "word": WORD}
    try:
        session.dataSource.register(type("IngestDataSource", (IngestDataSource,), members))
        return session.readStream.format(label).load()
    except PySparkException as error:
        raise TidegateError(
            Code.SOURCE_REFUSED,
            expected="Spark to take tidegate's source",
            found=str(error).split("\n")[0],
            where=where,
            next_step="see whether the workers' Python (PYSPARK_PYTHON) has tidegate",
        ) from None


def _not_opened(where: str) -> TidegateError:
    return TidegateError(
        Code.SOURCE_OPTION,
        expected="a query of the job, which opens the ingest log",
        found="another streaming query",
        where=where,
        next_step="write it with job.query(...)",
    )


def _position(offset: Mapping[str, Any]) -> Position:
    return msgspec.convert(offset, type=Position)


def _begun(position: str, where: str) -> Position:
    try:
        return msgspec.json.decode(position, type=Position)
    except msgspec.MsgspecError:
        raise TidegateError(
            Code.SOURCES_CHANGED,
            expected="a checkpoint of this durable socket source",
            found=f"one at {position!r}",
            where=where,
        ) from None


def _text(position: Position) -> str:
    return msgspec.json.encode(position).decode()


_labels = itertools.count(1)
_ARROW = pa.schema([("value", pa.string())])
_LINE_BYTES_AT_MOST = 1 << 28
_EPOCHS_TO_SPARE = 2
"""Done epochs that are kept beyond the retained ones: the newest may not be among those yet, and one more."""
