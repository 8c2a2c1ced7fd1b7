"""Feeds the input topic in the background, record by record in their order, through every failure of the brokers."""

from __future__ import annotations

import threading
import time

from confluent_kafka import KafkaError, Message, Producer

from tests.campaign.drivers import CampaignFailed
from tests.campaign_kafka.records import Records

_AT_ONCE = 200
_DELIVERY_MS = 600_000
_LOOK_SECONDS = 0.02


class Feeder:
    """Writes what has been released, at a steady pace; a context manager that ends its thread."""

    def __init__(self, servers: str, topic: str, records: Records, per_second: float) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "delivery.timeout.ms": _DELIVERY_MS,
                "linger.ms": 10,
                "log_level": 2,
            }
        )
        self._topic = topic
        self._records = records
        self._seconds_each = 1 / per_second
        self._released = 0
        self._written = 0
        self._confirmed = 0
        self._refused: KafkaError | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="feeder", daemon=True)

    def release(self, count: int) -> None:
        """Let so many more records be written, as far as there are any."""
        self._released = min(len(self._records), self._released + count)

    def release_all(self) -> None:
        self._released = len(self._records)

    @property
    def confirmed(self) -> int:
        """How many records stand in the topic. Raises when one was refused."""
        if self._refused is not None:
            raise CampaignFailed(f"a record of the input was refused: {self._refused}")
        return self._confirmed

    def is_done(self) -> bool:
        """Whether everything that was released stands in the topic."""
        return self.confirmed == self._released

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(1)

    def _work(self) -> None:
        due = time.monotonic()
        while not self._closing.is_set():
            count = min(_AT_ONCE, self._released - self._written)
            for number in range(self._written, self._written + count):
                self._write(number)
            self._written += count
            due = max(due + count * self._seconds_each, time.monotonic())
            self._producer.poll(max(_LOOK_SECONDS, due - time.monotonic()))

    def _write(self, number: int) -> None:
        key, value = self._records.message(number)
        while not self._closing.is_set():
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._confirm)
                return
            except BufferError:
                self._producer.poll(_LOOK_SECONDS)

    def _confirm(self, error: KafkaError | None, _: Message) -> None:
        self._confirmed += error is None
        self._refused = self._refused or error
