"""A Kafka sink without brokers: what its rows become, and which of them are refused by their values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.sinks.kafka.declared import layout_of
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.rows import RowRefused


class RowsOfKafka(KafkaSink):
    """Topics and their limits are not asked for."""

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return layout_of(self, batch.schema).refused(batch)
