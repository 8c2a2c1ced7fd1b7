"""What readers of a topic see: committed rows, and with --uncommitted also those that are open or aborted, beside them.

python examples/read_committed.py --topic counted
python examples/read_committed.py --topic counted --uncommitted
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message


def reader(servers: str, topic: str, isolation: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"read-committed-example-{uuid.uuid4()}",  # a reader of its own, from the beginning
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # This is all that a consumer needs. The default of librdkafka is read_committed, that of Java's client is
            # read_uncommitted: say it.
            "isolation.level": isolation,
        }
    )
    consumer.subscribe([topic])
    return consumer


def rows(consumer: Consumer, seconds: float) -> Iterator[Message]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        yield message


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--topic", default="counted")
    parser.add_argument("--uncommitted", action="store_true", help="also what is open or aborted, on the right")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many seconds")
    arguments = parser.parse_args()
    committed = reader(arguments.servers, arguments.topic, "read_committed")
    everything = reader(arguments.servers, arguments.topic, "read_uncommitted") if arguments.uncommitted else None
    print(f"{'committed':<60}{'everything' if everything else ''}")
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        for message in rows(committed, 0.3):
            print(_text(message))
        if everything is not None:
            for message in rows(everything, 0.3):
                print(f"{'':<60}{_text(message)}")


def _text(message: Message) -> str:
    value = (message.value() or b"").decode("utf-8", "replace")
    return f"{message.partition()}:{message.offset()} {value}"


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
