"""The demo with Kafka for input and output: its own broker, one input topic and two output topics."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer

from tidegate.core.json_formats import parsed
from tidegate.testing.checker import Batches, InputLine, SinkContents
from tidegate.testing.demo import child
from tidegate.testing.demo.driver import DemoFailed
from tidegate.testing.demo.ends import Programs
from tidegate.testing.demo.outputs import as_change, as_line, read_table, rows_of
from tidegate.testing.demo.places import Gate, Places, Topic
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.jars import connector_jars
from tidegate.testing.kafka.topics import NotReadToTheEnd, create_topic, read_all

_PARTITIONS = 8
_SECONDS = 60.0
_PRODUCER = {"transactional.id": "demo-input", "linger.ms": 5, "log_level": 3}


class TopicEnds:
    """Input and output as topics of 8 partitions; the table stays in SQLite. A batch is one transaction."""

    programs = Programs("exact_kafka.py", "plain_kafka.py")
    ahead = 1  # an epoch takes all that has arrived

    def __init__(self, places: Places, tell: Callable[[str], None], gate: Gate) -> None:
        self._places = places
        self._jars = [] if gate is Gate.on else connector_jars(tell)
        self._tell = tell
        self._servers = ""
        self._producer: Producer | None = None
        self._read_to: list[dict[int, int]] = []
        """For each batch and partition, the offset behind what had arrived with it."""
        self._lines: list[tuple[int, int, InputLine]] = []
        """Partition and offset of each line."""

    @contextmanager
    def ready(self) -> Generator[None]:
        with Broker.start(self._places.broker, tell=self._tell) as broker:
            self._servers = broker.servers
            for topic in Topic:
                create_topic(broker.servers, topic.value, _PARTITIONS)
            self._producer = Producer({**_PRODUCER, "bootstrap.servers": broker.servers})
            self._producer.init_transactions(_SECONDS)
            yield
            self._producer = None  # its threads would miss the broker

    def environment(self) -> Mapping[str, str]:
        return {child.SERVERS: self._servers, child.JARS: ",".join(map(str, self._jars))}

    def put(self, batch: Sequence[InputLine]) -> None:
        producer = self._producer
        if producer is None:
            raise DemoFailed("the broker was not started")
        ends = dict(self._read_to[-1]) if self._read_to else dict.fromkeys(range(_PARTITIONS), 0)

        def note(line: InputLine) -> Callable[[KafkaError | None, Message], None]:
            def noted(error: KafkaError | None, message: Message) -> None:
                if error is not None:
                    raise DemoFailed(f"the broker did not take line {line.number}: {error}")
                partition, offset = message.partition() or 0, message.offset() or 0
                self._lines.append((partition, offset, line))
                ends[partition] = max(ends[partition], offset + 1)

            return noted

        producer.begin_transaction()
        for line in batch:
            value = json.dumps({"number": line.number, "text": line.text})
            producer.produce(Topic.INPUT.value, value, str(line.number), on_delivery=note(line))
            producer.poll(0)
        producer.commit_transaction(_SECONDS)
        self._read_to.append(ends)

    def batches_to(self, position: str | None) -> int:
        reached = _offsets(position)
        return sum(all(reached.get(partition, 0) >= end for partition, end in ends.items()) for ends in self._read_to)

    def epochs(self, positions: Sequence[str | None]) -> Batches:
        reached = [_offsets(position) for position in positions]
        ends = {partition: [each.get(partition, 0) for each in reached] for partition in range(_PARTITIONS)}
        epochs: list[list[InputLine]] = [[] for _ in range(len(positions) + 1)]
        for partition, offset, line in self._lines:
            epochs[bisect_right(ends[partition], offset)].append(line)
        return [epoch for epoch in epochs if epoch]

    def read(self) -> SinkContents:
        """Read the sinks with a new consumer, which reads committed records up to the high watermark."""
        try:
            lines, changes = (self._values(topic) for topic in (Topic.LINES, Topic.CHANGES))
        except NotReadToTheEnd as stuck:
            raise DemoFailed(f"an open transaction stands before the end of a topic: {stuck}") from None
        return SinkContents(
            lines=[as_line(row, text) for row, text in rows_of(lines)],
            changes=[as_change(row, text) for row, text in rows_of(changes)],
            table=read_table(self._places.table),
        )

    def _values(self, topic: Topic) -> list[str]:
        rows = read_all(self._servers, topic.value, seconds=_SECONDS)
        return [(row.value or b"").decode(errors="replace") for row in rows]


def _offsets(position: str | None) -> dict[int, int]:
    """The offset of each partition of the input topic.

    Tidegate's and Spark's Kafka source write positions in the same form.
    """
    if position is None:
        return {}
    topics = parsed(position, dict[str, dict[str, int | str]])
    return {int(partition): int(offset) for partition, offset in topics.get(Topic.INPUT.value, {}).items()}
