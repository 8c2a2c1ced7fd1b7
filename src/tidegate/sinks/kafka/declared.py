"""The options of a Kafka sink as the program declares them: what its checks, description and commit phase read."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from tidegate.kafka.clients import Clients
from tidegate.sinks.kafka.messages import Layout, MessageFormat
from tidegate.sinks.row_values import InvalidText


class DeclaredKafkaSink(Protocol):
    """The options of a `KafkaSink`."""

    uid: str
    topic: str | None
    key: str | None
    value: tuple[str, ...]
    headers: str | None
    partition: str | None
    format: str
    invalid_text: InvalidText
    prefix: str
    transaction_timeout: float | None
    clients: Clients


def layout_of(sink: DeclaredKafkaSink, schema: pa.Schema) -> Layout:
    """The role of each column, for rows of this schema."""
    format_ = MessageFormat(sink.format)
    names = list(schema.names)
    by_itself = format_ is MessageFormat.RAW

    def column(given: str | None, name: str) -> str | None:
        return given if given is not None else name if by_itself and name in names else None

    topic_column = None if sink.topic is not None else "topic"
    partition, headers = column(sink.partition, "partition"), column(sink.headers, "headers")
    left_out = {topic_column, partition, headers}
    values = sink.value or (("value",) if by_itself else tuple(name for name in names if name not in left_out))
    return Layout(
        format=format_,
        topic=sink.topic,
        topic_column=topic_column,
        key=column(sink.key, "key"),
        values=values,
        partition=partition,
        headers=headers,
        invalid_text=sink.invalid_text,
    )
