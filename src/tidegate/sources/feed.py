"""Reads a `RowSource` that cannot be read again, and writes its rows to an ingest log, in a thread of the driver."""

from __future__ import annotations

from tidegate.checkpoints.ingest_log import IngestLog
from tidegate.core.errors import Code, TidegateError
from tidegate.sources.base import Position, Replay, RowSource, ranges
from tidegate.sources.ends import IDLE_SECONDS, RowEnds
from tidegate.sources.feed_thread import FeedThread
from tidegate.sources.keeping import keep
from tidegate.sources.logged import arrow_payload, reached_in, with_schema


class RowsFeed(FeedThread):
    """Writes the rows between two positions and the second position to the log, as one frame.

    A crash leaves both or neither.
    """

    def __init__(self, source: RowSource, log: IngestLog, where: str) -> None:
        super().__init__("tidegate-feed")
        self._source = source
        self._log = log
        self._where = where

    def _failed(self, error: Exception) -> Exception:
        return error if isinstance(error, TidegateError) else source_failed(error, self._where)

    def _feed(self) -> None:
        ends, start = RowEnds(self._source, self._where), self._begin()
        while not self._closing.is_set():
            end = ends.after(start)
            if end == start:
                self._closing.wait(IDLE_SECONDS)
                continue
            self._take(start, end)
            self._source.done(end)
            start = end
            self._closing.wait(self._log.gather_seconds)
        self._source.close()

    def _begin(self) -> Position:
        """Where to begin: after the last row in the log if positions survive a restart, else at the oldest row."""
        if self._source.traits.replay is Replay.NONE:
            return self._source.oldest()
        reached = reached_in(self._log.last_frame())
        if reached is None:
            return self._source.oldest()
        self._source.done(reached)  # the process may have died before it said so
        return reached

    def _take(self, start: Position, end: Position) -> None:
        schema = self._source.schema()
        wanted = [part for each in ranges(start, end) for part in self._source.split(each)]
        batches = [with_schema(batch, schema, self._where) for each in wanted for batch in self._source.read(each)]
        payload = arrow_payload(schema, batches, end)
        keep(lambda: self._log.append_payload(payload), self._where, f"{payload.rows} rows", self._closing)


def source_failed(error: BaseException, where: str) -> TidegateError:
    """The error for an exception that a source has raised while its rows were written to the ingest log."""
    failed = TidegateError(
        Code.SOURCE_FAILED,
        expected="rows for the ingest log",
        found=f"{type(error).__name__}: {_shortly(error)}",
        where=where,
        next_step="see what the source needs, then start again (`tidegate run` does by itself)",
    )
    failed.__cause__ = error
    return failed


def _shortly(error: BaseException) -> str:
    """The last line of the error's text that is not part of a stack trace.

    Spark's messages end with a worker's traceback.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "File "))]
    return said[-1] if said else "without a message"
