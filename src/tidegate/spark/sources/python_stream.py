"""A stream whose positions this process finds, and whose rows Python workers read.

Spark's Python Data Source API does the same with four more processes for each stream: to look for data sources, to make
this one, to plan its reading, and to find its positions. Each of them imports all modules, one after the other: some
five seconds of a start. Here Spark asks this process, on the socket on which it also calls Python for each epoch.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function  # pyright: ignore[reportPrivateUsage]

from tidegate.core.json_formats import parsed
from tidegate.spark.asked import Asked, asking_object

Place = Mapping[str, Any]
"""A position of a stream, as Spark's log keeps it: a JSON object."""


class StreamPositions(ABC):
    """Answers Spark's questions about the positions of one stream, for one start of its query."""

    @abstractmethod
    def first(self) -> Place:
        """The position where the query begins."""

    @abstractmethod
    def catch_up(self) -> None:
        """Let no later epoch end after the rows that exist now. Called for a run until `caught-up`."""

    @abstractmethod
    def after(self, start: Place) -> Place:
        """The end of the epoch that begins at `start`; `start` itself if there are no new rows."""

    @abstractmethod
    def parts(self, start: Place, end: Place) -> Sequence[object]:
        """The parts of the rows between two positions, one for each task. They are pickled to the tasks."""


def python_stream(
    session: SparkSession,
    name: str,
    schema: StructType,
    positions: Callable[[], StreamPositions],
    read: Callable[[Any], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """The stream as a DataFrame.

    `name`: its name in plans and in the progress of queries. `positions`: called at each start of a query that reads
    the stream. `read`: returns the rows of one part, with the columns of `schema`; pickled to the tasks.
    """
    context = session.sparkContext
    jvm: Any = context._jvm  # pyright: ignore[reportPrivateUsage]
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    python = jvm.org.apache.spark.sql.execution.datasources.v2.python
    java_schema = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    nothing = jvm.scala.Option.empty()
    reading = bytearray(CloudPickleSerializer().dumps((partial(_read_part, read), schema)))
    function = _wrap_function(context, _read_part)  # its Python, its environment and its files count
    factory = python.PythonPartitionReaderFactory(
        python.UserDefinedPythonDataSource(function), reading, java_schema, nothing, nothing
    )
    maker = asking_object(jvm, classic.getClass().getClassLoader(), "TidegateStream")
    return DataFrame(maker.rows(classic, name, java_schema, factory, _PositionsCall(positions)), session)


class _PositionsCall(Asked):
    """Answers Spark's stream thread. A stream is one start of a query; it has its own positions."""

    def __init__(self, positions: Callable[[], StreamPositions]) -> None:
        super().__init__()
        self._made = positions
        self._positions: dict[str, StreamPositions] = {}

    def answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        stream = asked["stream"]
        if asked["what"] == "stop":
            self._positions.pop(stream, None)
            return {}
        if stream not in self._positions:
            self._positions[stream] = self._made()
        return self._of(self._positions[stream], asked)

    def _of(self, positions: StreamPositions, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        match asked["what"]:
            case "first":
                return {"position": _text(positions.first())}
            case "catch_up":
                positions.catch_up()
                return {}
            case "after":
                return {"position": _text(positions.after(_place(asked["start"])))}
            case _:
                parts = positions.parts(_place(asked["start"]), _place(asked["end"]))
                dumps = CloudPickleSerializer().dumps
                return {"parts": [base64.b64encode(dumps(part)).decode() for part in parts]}


def _place(text: str) -> Place:
    return parsed(text, dict[str, Any])


def _text(position: Place) -> str:
    """As Spark's own runner of Python sources writes it, so that checkpoints stay as they are."""
    return json.dumps(position)


def _read_part(
    read: Callable[[Any], Iterator[pa.RecordBatch]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of the part that Spark gives a task: pickled, in the only row and column of the only batch."""
    [part] = [batch.column(0)[0].as_py() for batch in batches]
    yield from read(CloudPickleSerializer().loads(part))
