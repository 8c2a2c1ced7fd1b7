"""The stream of a Kafka source: its positions are found on the driver, its records are read in the tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidegate.logs.subject import Subject, about_all_of, subject
from tidegate.logs.writing import set_up_below_run
from tidegate.sources.kafka.offsets import Bounds, OffsetRange, Offsets, shared_by_tasks
from tidegate.sources.kafka.reading import mean_bytes, read
from tidegate.sources.kafka.source import EndFinder, TopicReading
from tidegate.sources.kafka.topics import Topics
from tidegate.sources.value_parsing import UNPARSED, VALUE, UnparsedValues
from tidegate.spark.arrow_schema import arrow_schema
from tidegate.spark.sources.python_stream import Place, StreamPositions, python_stream
from tidegate.spark.sources.refusals import outside_a_job
from tidegate.spark.telling import WORD, told_by_source


def stream_of(
    session: SparkSession, reading: TopicReading, bounds: Bounds | None, value_type: DataType | None
) -> DataFrame:
    """The records as a streaming DataFrame. `bounds`: where the query begins and ends; None outside of a query.

    `value_type`: the type of the column of values if they are parsed; None for their bytes.
    """
    schema = columns_of(reading, value_type)
    context = session.sparkContext

    def cores() -> int:
        return context.defaultParallelism  # asked for each epoch: executors come and go

    records = RecordsOfTask(reading, arrow_schema(schema), subject(), WORD)
    return python_stream(session, _NAME, schema, partial(KafkaPositions, reading, bounds, cores), records)


def columns_of(reading: TopicReading, value_type: DataType | None) -> StructType:
    """The columns of Spark's own connector, with the type of the values, and the column of texts that do not parse."""
    fields = [
        StructField(VALUE, value_type) if field.name == VALUE and value_type is not None else field
        for field in (*_COLUMNS, *([_HEADERS] if reading.headers else []))
    ]
    keeps = reading.values is not None and reading.values.unparsed is UnparsedValues.DEAD_LETTERS
    return StructType([*fields, *([StructField(UNPARSED, StringType())] if keeps else [])])


class KafkaPositions(StreamPositions):
    """Finds where each epoch of a query ends."""

    def __init__(self, reading: TopicReading, bounds: Bounds | None, cores: Callable[[], int]) -> None:
        """`bounds`: where the query begins and ends. `cores`: the number of tasks that run at once.

        Raises SOURCE_OPTION for a query that is not of a job.
        """
        if bounds is None:
            instead = 'write it with job.query(...), or read with SparkSource("kafka", ...)'
            raise outside_a_job(reading.where, instead)
        self._start = bounds.start
        self._cores = cores
        self._ends = EndFinder(
            reading, Topics(reading.clients, reading.where), bounds.stop, partial(mean_bytes, reading)
        )

    def first(self) -> Place:
        return self._start.to_json()

    def catch_up(self) -> None:
        self._ends.catch_up()

    def after(self, start: Place) -> Place:
        return self._ends.after(Offsets.from_json(start)).to_json()

    def parts(self, start: Place, end: Place) -> Sequence[tuple[OffsetRange, ...]]:
        planned = self._ends.planned(Offsets.from_json(start), Offsets.from_json(end))
        return [(each,) for each in planned] if len(planned) < 2 else shared_by_tasks(planned, self._cores())


@dataclass(frozen=True, slots=True)
class RecordsOfTask:
    """Reads the ranges of a task. Log lines in it name the query and the epoch of the task. `word`: the random word of
    the driver's mark for errors, so that an error reaches the driver with all its parts.
    """

    reading: TopicReading
    schema: pa.Schema
    about: Subject
    word: str

    def __call__(self, wanted: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
        set_up_below_run(os.environ)
        with about_all_of(self.about, epoch=_epoch_of_task()), told_by_source(self.word):
            for each in wanted:
                yield from read(self.reading, each, self.schema)


def _epoch_of_task() -> int | None:
    """Spark's batch id in a task of a batch; None elsewhere."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return int(number) if number is not None and number.isdigit() else None


_NAME = "tidegate-kafka"
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_HEADERS = StructField("headers", ArrayType(_HEADER))
_COLUMNS = (
    StructField("key", BinaryType()),
    StructField(VALUE, BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
