"""What the examples share: topics that are made once."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic


def make_topics(servers: str, names: Sequence[str]) -> None:
    """Create the topics that are not there yet, with more partitions than a laptop has cores."""
    admin = AdminClient({"bootstrap.servers": servers})
    for topic, made in admin.create_topics([NewTopic(name, num_partitions=8) for name in names]).items():
        try:
            made.result()
            print(f"topic {topic} made")
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise
