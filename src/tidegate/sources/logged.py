"""What a payload of an ingest log is: the lines of a socket, or rows as Arrow, with the position of their source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import msgspec
import pyarrow as pa

from tidegate.checkpoints.ingest_frames import Frame, Payload
from tidegate.core.errors import Code, TidegateError
from tidegate.sources.base import Position


class LoggedRows(Protocol):
    """How the rows of a log are read. It is pickled to the tasks."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self, frame: Frame) -> Iterator[pa.RecordBatch]:
        """The rows of a frame."""
        ...


@dataclass(frozen=True, slots=True)
class LineRows:
    """Lines as text in the column `value`. Bytes that are no UTF-8 become U+FFFD."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("value", pa.string())])

    def batches(self, frame: Frame) -> Iterator[pa.RecordBatch]:
        values = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in frame.lines()]
        yield cast("Any", pa.RecordBatch).from_arrays([pa.array(values, pa.string())], schema=self.schema)


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows with the columns of `schema`: each frame is a stream of Arrow's. `where` names the source in errors."""

    schema: pa.Schema
    where: str

    def batches(self, frame: Frame) -> Iterator[pa.RecordBatch]:
        """Raises SOURCES_CHANGED where the rows were logged with other columns."""
        with pa.ipc.open_stream(frame.payload) as reader:
            for batch in reader:
                yield with_schema(batch, self.schema, self.where)


def arrow_payload(schema: pa.Schema, batches: Sequence[pa.RecordBatch], reached: Position | None = None) -> Payload:
    """The payload of these rows. `reached`: how far their source was read with them; it counts if they do."""
    mark = {} if reached is None else {_REACHED: msgspec.json.encode(dict(reached))}
    marked: pa.Schema = cast("Any", schema).with_metadata(mark)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, marked) as writer:
        for batch in batches:
            cast("Any", writer).write_batch(batch.cast(marked))
    return Payload(sum(batch.num_rows for batch in batches), sink.getvalue().to_pybytes())


def reached_in(frame: Frame | None) -> Position | None:
    """How far the source was read with the rows of a frame; None where that is not known."""
    if frame is None:
        return None
    with pa.ipc.open_stream(frame.payload) as reader:
        mark = (reader.schema.metadata or {}).get(_REACHED)
    return None if mark is None else msgspec.json.decode(mark, type=dict[str, int])


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
