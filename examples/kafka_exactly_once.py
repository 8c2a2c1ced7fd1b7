"""Kafka to Kafka, exactly once: the rows of topic_1 go to topic ws as they are. Kill it (kill -9), start it again, and
look with read_committed.py: no row is missing, and none is there twice.

    tidegate broker start                              # a broker on 127.0.0.1:9092, if you have none
    python examples/kafka_exactly_once.py              # one terminal: the job
    python examples/read_committed.py                  # another one: what readers see
    python examples/kafka_exactly_once.py --send 1000  # a third one: sends numbered rows
"""

from __future__ import annotations

import argparse
import time

from confluent_kafka import Producer
from topics import make_topics

from tidegate import Job, KafkaSink, KafkaSource

SOURCE, SINK = "topic_1", "ws"


def declare(servers: str) -> Job:
    """The job: every row once."""
    # The job's name is part of everything that it leaves behind. Started again, it continues where it was.
    job = Job(
        "kafka-exactly-once",
        checkpointing_interval="5s",  # rows become visible at the end of an epoch
        checkpointing_mode="exactly-once",
        checkpointing_dir=".tidegate",  # positions, ledger and journal: a restart is exact because of them
        checkpointing_retention="retain",  # `tidegate cancel` leaves the checkpoints
    )
    rows = job.source(
        "source",
        KafkaSource(
            servers,  # of a cluster: "kafka1:9092,kafka2:9092,kafka3:9092"
            topics=[SOURCE],
            start="latest",  # asked once, at the very first start, and written down: a crash never moves it
            group="kafka-exactly-once",  # shows lag tools where the job is; the job never reads its position there
        ),
    )
    # Rows may come 3 s late. Nothing here computes with time; a window behind this would wait so long.
    timed = rows.withWatermark("timestamp", "3 seconds")
    sink = KafkaSink(
        "sink",
        servers,
        topic=SINK,
        format="raw",  # the column `value`, byte by byte
        # Transactional ids begin with this name: a user of the cluster needs rights on this prefix alone.
        transactional_id_prefix="kafka-exactly-once",
        # 10 minutes: longer than an epoch, and within the broker's maximum of 15. When the job is down for longer, the
        # broker aborts what is open, and the next start writes those rows again from the journal.
        transaction_timeout=10 * 60,
    )
    job.query("rows", timed.select("value"), mode="append", sinks=[sink])
    return job


def send(servers: str, count: int) -> None:
    """Send `count` numbered rows, some hundred a second."""
    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(SOURCE, f"row {number}")
        producer.poll(0)
        time.sleep(0.002)
    producer.flush()
    print(f"{count} rows sent")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--send", type=int, metavar="COUNT", help="send rows instead of running the job")
    arguments = parser.parse_args()
    make_topics(arguments.servers, (SOURCE, SINK))
    if arguments.send:
        send(arguments.servers, arguments.send)
    else:
        declare(arguments.servers).run()


if __name__ == "__main__":
    main()
