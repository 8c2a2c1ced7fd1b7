"""Kafka to Kafka, exactly once. Kill it (kill -9), start it again, and look with read_committed.py: no row is missing,
none is there twice.

    tidegate broker start                      # a broker on 127.0.0.1:9092, if you have none
    python examples/kafka_exactly_once.py      # one terminal: the job
    python examples/read_committed.py          # another one: what readers see
    python examples/kafka_exactly_once.py --send 1000     # a third one: sends numbered lines
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from datetime import datetime, timezone

from confluent_kafka import Producer
from pyspark.sql import functions as F
from topics import make_topics

from tidegate import Job, KafkaSink, KafkaSource

LINES, COUNTED = "lines", "counted"


def run(servers: str, until: str | None) -> None:
    """The job: how many lines each user sent in each second of their own time."""
    # The job's name is part of everything that it leaves behind. Started again, it goes on where it was.
    job = Job(
        "kafka-exactly-once",
        checkpointing_interval="1s",  # the least time between two epochs; rows become visible once an epoch
        checkpointing_dir=".tidegate",  # state, offsets and the journal: keep it, it is what makes a restart exact
    )
    lines = job.source(
        "lines",
        KafkaSource(
            servers,
            topics=[LINES],
            start="latest",  # asked once, at the very first start, and written down: a crash never moves it
            group="kafka-exactly-once",  # where the job is, for lag tools; nothing is ever read from there
        ),
    )
    seconds = (
        lines.select(F.from_json(F.col("value").cast("string"), "user STRING, number LONG, at TIMESTAMP").alias("line"))
        .select("line.*")
        .withWatermark("at", "3 seconds")  # a line may come three seconds late; then its second is counted and final
        .groupBy(F.window("at", "1 second"), "user")
        .agg(F.count("*").alias("lines"), F.sum("number").alias("sum"))
        .select(F.col("window.start").alias("second"), "user", "lines", "sum")
    )
    counted = KafkaSink(
        "counted",
        servers,
        topic=COUNTED,
        key="user",  # all counts of a user in one partition, in their order
        # Transactional ids begin with this name: a user of the cluster needs rights on this prefix alone.
        transactional_id_prefix="kafka-exactly-once",
        # A transaction is open from the first row of an epoch until the epoch is decided. If the job is down for
        # longer than this, the broker aborts it, and the next start writes its rows again from the journal.
        transaction_timeout=60,
    )
    job.query("seconds", seconds, mode="append", sinks=[counted])
    job.run(until="caught-up" if until else None)


def send(servers: str, count: int) -> None:
    """Send `count` numbered lines, a hundred a second."""
    producer = Producer({"bootstrap.servers": servers})
    users = itertools.cycle(["ada", "grace", "edsger"])
    for number in range(count):
        user = next(users)
        at = datetime.now(timezone.utc).isoformat()
        producer.produce(LINES, json.dumps({"user": user, "number": number, "at": at}), key=user)
        producer.poll(0)
        time.sleep(0.01)
    producer.flush()
    print(f"{count} lines sent")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--send", type=int, metavar="COUNT", help="send lines instead of running the job")
    parser.add_argument("--until", choices=["caught-up"], help="end when everything that is there is done")
    arguments = parser.parse_args()
    make_topics(arguments.servers, (LINES, COUNTED))
    if arguments.send:
        send(arguments.servers, arguments.send)
    else:
        run(arguments.servers, arguments.until)


if __name__ == "__main__":
    main()
