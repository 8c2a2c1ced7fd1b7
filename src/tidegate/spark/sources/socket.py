"""Lines from a TCP server: read by Spark's own socket source, or through an ingest log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from tidegate.checkpoints.ingest_log import IngestLog
from tidegate.core.levels import Level
from tidegate.sources.feed_thread import Feed
from tidegate.sources.logged import LineRows
from tidegate.sources.socket import LINE_BYTES_AT_MOST, DescribedSocket
from tidegate.spark.sources.ingest import IngestedSource
from tidegate.spark.sources.refusals import unfit_option
from tidegate.spark.sources.source import Ground
from tidegate.spark.sources.spark_source import SparkSource
from tidegate.supervise.receiver import Peer, Receiver


class SocketSource(SparkSource, DescribedSocket):
    """Lines (column `value`) from a TCP server. The server cannot send a line again, so a plain socket is for
    at-most-once jobs only.

    With `durable=True` lines are first written to an ingest log in the job's folder. Every level is then possible for a
    line that is in the log, and a broken connection is opened again. A line has at most `max_line_bytes` and ends with
    `\\n` or `\\r\\n`. The log holds the original bytes; bytes that are not valid UTF-8 are U+FFFD in `value`.
    """

    kind: ClassVar[str] = "socket"

    def __init__(self, host: str, port: int, *, durable: bool = False, max_line_bytes: int = 1 << 20) -> None:
        SparkSource.__init__(self, "socket")
        DescribedSocket.__init__(self, host, port)
        self.options: Mapping[str, str | int | bool] = {"host": host, "port": port}
        self.behind_a_log = IngestedSocket(host, port, max_line_bytes)
        self.ingested = self.behind_a_log if durable else None

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        if self.ingested is not None:
            return self.ingested.load(session, where, level)
        return super().load(session, where, level)


class IngestedSocket(IngestedSource):
    """A socket with its ingest log."""

    def __init__(self, host: str, port: int, max_line_bytes: int) -> None:
        self._host = host
        self._port = port
        self._max_line_bytes = max_line_bytes

    def rows(self, session: SparkSession, where: str) -> LineRows:
        for expected, found in self._violations():
            raise unfit_option(expected, found, where)
        return LineRows()

    def feed(self, log: IngestLog, ground: Ground) -> Feed:
        peer = Peer(self._host, self._port, self._max_line_bytes, ground.where)
        return Receiver(peer, log.append, log.gather_seconds)

    def _violations(self) -> Iterator[tuple[str, str]]:
        if not self._host:
            yield "host= with a name or an address", repr(self._host)
        if not 0 < self._port < 1 << 16:
            yield "port= from 1 to 65535", repr(self._port)
        if not 0 < self._max_line_bytes <= LINE_BYTES_AT_MOST:
            yield f"max_line_bytes= from 1 to {LINE_BYTES_AT_MOST}", repr(self._max_line_bytes)
