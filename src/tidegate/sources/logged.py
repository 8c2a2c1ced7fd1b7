"""Converts payloads of an ingest log into rows: lines of a socket, or Arrow data with the source's position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import msgspec
import pyarrow as pa

from tidegate.checkpoints.ingest_frames import Frame, Payload
from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import parsed
from tidegate.sources.base import Position


class LoggedRows(Protocol):
    """Reads the rows of an ingest log. The object is pickled and sent to the tasks."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self, frame: Frame) -> Iterator[pa.RecordBatch]:
        """The rows of one frame of the log."""
        ...


@dataclass(frozen=True, slots=True)
class LineRows:
    """Reads lines as text in the column `value`. Bytes that are not valid UTF-8 become U+FFFD."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("value", pa.string())])

    def batches(self, frame: Frame) -> Iterator[pa.RecordBatch]:
        values = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in frame.lines()]
        yield cast("Any", pa.RecordBatch).from_arrays([pa.array(values, pa.string())], schema=self.schema)


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Reads rows with the columns of `schema`.

    Each frame is one Arrow stream. `where`: the name of the source in errors.
    """

    schema: pa.Schema
    where: str

    def batches(self, frame: Frame) -> Iterator[pa.RecordBatch]:
        """The rows of one frame. Raises SOURCES_CHANGED if the log has rows with other columns."""
        with pa.ipc.open_stream(frame.payload) as reader:
            for batch in reader:
                yield with_schema(batch, self.schema, self.where)


def arrow_payload(schema: pa.Schema, batches: Sequence[pa.RecordBatch], reached: Position | None = None) -> Payload:
    """The log payload for these rows.

    `reached`: the position of the source after them, stored together with the rows.
    """
    mark = {} if reached is None else {_REACHED: msgspec.json.encode(dict(reached))}
    marked: pa.Schema = cast("Any", schema).with_metadata(mark)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, marked) as writer:
        for batch in batches:
            cast("Any", writer).write_batch(batch.cast(marked))
    return Payload(sum(batch.num_rows for batch in batches), sink.getvalue().to_pybytes())


def reached_in(frame: Frame | None) -> Position | None:
    """The position of the source after the rows of a frame; None if it is not known."""
    if frame is None:
        return None
    with pa.ipc.open_stream(frame.payload) as reader:
        mark = (reader.schema.metadata or {}).get(_REACHED)
    return None if mark is None else parsed(mark, dict[str, int])


def with_schema(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """The columns of `schema` from `batch`, in its order and cast to its types; other columns are dropped.

    Raises SOURCES_CHANGED if a column is missing or cannot be cast.
    """
    try:
        return batch.select(schema.names).cast(schema)
    except (KeyError, pa.ArrowException) as error:
        raise TidegateError(
            Code.SOURCES_CHANGED,
            expected=f"rows with the columns {_columns(schema)}",
            found=f"{_columns(batch.schema)} ({str(error).splitlines()[0]})",
            where=where,
            next_step="let the source give the columns that it declares; where they were changed on purpose, start"
            " under another job name or checkpointing.dir",
        ) from None


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{name} {type}" for name, type in zip(schema.names, schema.types, strict=True))


_REACHED = b"tidegate.reached"
