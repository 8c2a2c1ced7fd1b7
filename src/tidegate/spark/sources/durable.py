"""Puts an ingest log in front of any source that cannot be read again: `job.source(..., durable=True)`."""

from __future__ import annotations

import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.checkpoints.ingest_log import IngestLog
from tidegate.core.errors import Code, TidegateError
from tidegate.sources.base import Replay, RowSource
from tidegate.sources.feed import RowsFeed, source_failed
from tidegate.sources.feed_thread import Feed
from tidegate.sources.keeping import keep
from tidegate.sources.logged import ArrowRows, arrow_payload
from tidegate.spark.arrow_schema import arrow_schema
from tidegate.spark.sources.ingest import IngestedSource
from tidegate.spark.sources.socket import SocketSource
from tidegate.spark.sources.source import Ground, StreamLoader
from tidegate.spark.sources.spark_source import SparkSource
from tidegate.spark.sources.streams import traits_of


def durable(given: RowSource | StreamLoader | DataFrame, where: str) -> IngestedSource:
    """The source with an ingest log. Raises SOURCE_OPTION if the source can be read again and needs no log."""
    match given:
        case SocketSource():
            return given.behind_a_log
        case RowSource() if given.traits.replay is not Replay.EXACT:
            return IngestedRows(given)
        case SparkSource() if given.declared is None or given.declared.replay is not Replay.EXACT:
            return IngestedStream(given)
        case DataFrame() if not all(each.replay is Replay.EXACT for each in traits_of(given)):
            return IngestedStream(given)
        case _:
            raise TidegateError(
                Code.SOURCE_OPTION,
                expected="durable=True for a source that cannot be read again",
                found=f"{type(given).__name__}, which can",
                where=where,
                next_step="leave durable= out: the job reads the source itself again",
            )


class IngestedRows(IngestedSource):
    """A `RowSource` with an ingest log."""

    def __init__(self, source: RowSource) -> None:
        self._source = source

    def rows(self, session: SparkSession, where: str) -> ArrowRows:
        return ArrowRows(self._source.schema(), where)

    def feed(self, log: IngestLog, ground: Ground) -> Feed:
        return RowsFeed(self._source, log, ground.where)


class IngestedStream(IngestedSource):
    """A stream of Spark with an ingest log: one of Spark's formats, or a Python data source."""

    def __init__(self, source: SparkSource | DataFrame) -> None:
        self._source = source
        self._stream: DataFrame | None = None

    def rows(self, session: SparkSession, where: str) -> ArrowRows:
        return ArrowRows(arrow_schema(self._read(session, where).schema), where)

    def feed(self, log: IngestLog, ground: Ground) -> Feed:
        return StreamFeed(self._read(ground.session, ground.where), log, ground.where)

    def _read(self, session: SparkSession, where: str) -> DataFrame:
        if self._stream is None:
            self._stream = (
                self._source.read(session, where, {}) if isinstance(self._source, SparkSource) else self._source
            )
        return self._stream


class StreamFeed:
    """A separate streaming query that appends the rows of its batches to the ingest log.

    Each start of the job begins a new query with a checkpoint in a temporary folder. So a source that cannot be read
    again begins where it begins in any new query, and no batch is appended twice.
    """

    def __init__(self, rows: DataFrame, log: IngestLog, where: str) -> None:
        self._rows = rows
        self._log = log
        self._where = where
        self._schema = arrow_schema(rows.schema)
        self._closing = threading.Event()
        self._query: StreamingQuery | None = None
        self._folder: Path | None = None
        self._failed: TidegateError | None = None

    @property
    def error(self) -> TidegateError | None:
        if self._failed is None and self._query is not None and not self._closing.is_set():
            ended = self._query.exception() if not self._query.isActive else None
            self._failed = None if ended is None else source_failed(ended, self._where)
        return self._failed

    def start(self) -> None:
        if self._query is not None:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-feed-"))
        writer = self._rows.writeStream.foreachBatch(self._append).option("checkpointLocation", str(self._folder))
        try:
            self._query = writer.start()
        except PySparkException as error:
            raise source_failed(error, self._where) from None

    def close(self) -> None:
        self._closing.set()
        query, self._query = self._query, None
        if query is not None:
            with suppress(PySparkException, Py4JError, OSError):  # its JVM may be gone, and the query with it
                query.stop()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _append(self, batch: DataFrame, number: int) -> None:
        """Append the rows of a batch to the log. Called in a thread of Spark.

        An error that it raises is short, because a long traceback would overflow that thread's stack.
        """
        try:
            batches = batch.toArrow().to_batches()
            payload = arrow_payload(self._schema, batches)
            keep(lambda: self._log.append_payload(payload), self._where, f"{payload.rows} rows", self._closing)
        except TidegateError as error:
            self._failed = error
        except Exception as error:  # noqa: BLE001 (kept: it ends the job)
            self._failed = source_failed(error, self._where)
        if self._failed is not None:
            raise RuntimeError("the rows are not in the ingest log")
