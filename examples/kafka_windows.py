"""Kafka to event-time windows to Kafka: the average of each sensor over ten seconds, exactly once.

tidegate broker start                       # a broker on 127.0.0.1:9092, if you have none
python examples/kafka_windows.py --send 60  # one terminal: a minute of measurements
python examples/kafka_windows.py            # another one: the job
python examples/read_committed.py --topic averages
"""

from __future__ import annotations

import argparse
import json
import random
import time
from datetime import datetime, timedelta, timezone

from confluent_kafka import Producer
from pyspark.sql import functions as F
from topics import make_topics

from tidegate import Job, KafkaSink, KafkaSource

MEASURED, AVERAGES = "measured", "averages"


def run(servers: str, until: str | None) -> None:
    job = Job("kafka-windows", checkpointing_interval="1s")
    measured = job.source("measured", KafkaSource(servers, topics=[MEASURED], start="earliest"))
    averages = (
        measured.select(
            F.from_json(F.col("value").cast("string"), "sensor STRING, value DOUBLE, at TIMESTAMP").alias("m")
        )
        .select("m.*")
        # A measurement may be five seconds late. A window is final, and sent, when the latest time seen is five
        # seconds past its end; what comes for it after that is left out.
        .withWatermark("at", "5 seconds")
        .groupBy(F.window("at", "10 seconds"), "sensor")
        .agg(F.avg("value").alias("average"), F.count("*").alias("measurements"))
        .select(
            F.col("window.start").alias("from"), F.col("window.end").alias("to"), "sensor", "average", "measurements"
        )
    )
    job.query("averages", averages, mode="append", sinks=[KafkaSink("topic", servers, topic=AVERAGES, key="sensor")])
    job.run(until="caught-up" if until else None)


def send(servers: str, seconds: int) -> None:
    """Three sensors, ten measurements a second each, some of them late."""
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(seconds * 10):
        for sensor in ("north", "south", "west"):
            at = datetime.now(timezone.utc) - timedelta(seconds=random.choice((0, 0, 0, 2)))
            value = {"sensor": sensor, "value": round(random.gauss(20, 2), 2), "at": at.isoformat()}
            producer.produce(MEASURED, json.dumps(value), key=sensor)
        producer.poll(0)
        time.sleep(0.1)
    producer.flush()
    print(f"{seconds * 30} measurements sent")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--send", type=int, metavar="SECONDS", help="send measurements instead of running the job")
    parser.add_argument("--until", choices=["caught-up"], help="end when everything that is there is done")
    arguments = parser.parse_args()
    make_topics(arguments.servers, (MEASURED, AVERAGES))
    if arguments.send:
        send(arguments.servers, arguments.send)
    else:
        run(arguments.servers, arguments.until)


if __name__ == "__main__":
    main()
