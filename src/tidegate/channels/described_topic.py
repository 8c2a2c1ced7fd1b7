"""A channel over Kafka as its readers see it, opened by a command. It needs the extra `kafka`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tidegate.sources.kafka.described import DescribedKafka


class DescribedKafkaChannel(DescribedKafka):
    """The rows of a channel over Kafka: the records of its topic."""

    kind: ClassVar[str] = "kafka-channel"

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"channel over {super().told(described)}"
