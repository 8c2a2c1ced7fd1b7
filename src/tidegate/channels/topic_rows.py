"""Reads the rows of a channel over Kafka in a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from tidegate.kafka.clients import Clients
from tidegate.sinks.arrow import batch_of
from tidegate.sources.kafka.offsets import OffsetRange
from tidegate.sources.kafka.reading import read
from tidegate.sources.kafka.source import TopicReading
from tidegate.sources.kafka.topics import TopicSelection
from tidegate.sources.value_parsers import JSONParser
from tidegate.sources.value_parsing import VALUE, UnparsedValues, ValueParsing

_arrow = cast("Any", pa)
_EXPECTED = "a row of the query that writes the channel, with the columns that it has now"
_NEXT_STEP = (
    "if the types of its columns were changed: start the program as it was, let the readers read to the end, and change"
    " it then. If another program writes the topic: stop it, and restore a checkpoint or savepoint from before; the job"
    " may have another topic then"
)


@dataclass(frozen=True, slots=True)
class TopicRowsOfTask:
    """Reads the ranges of a task: each record is a JSON object, which becomes a row with the columns of `schema`.
    Pickled to the tasks. `where`: the name of the channel in errors.
    """

    clients: Clients
    topic: str
    schema: pa.Schema
    where: str

    def __call__(self, wanted: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
        parser = JSONParser(self.schema, frozenset(self.schema.names))
        reading = TopicReading(
            clients=self.clients,
            selection=TopicSelection((self.topic,)),
            where=self.where,
            values=ValueParsing(parser, UnparsedValues.REFUSE, _EXPECTED, _NEXT_STEP),
        )
        fields = [cast("Any", self.schema).field(index) for index in range(len(self.schema))]
        values = _arrow.schema([pa.field(VALUE, _arrow.struct(fields))])
        for each in wanted:
            for batch in read(reading, each, values):
                yield batch_of(cast("Any", batch).column(0).flatten(), self.schema.names).cast(self.schema)
