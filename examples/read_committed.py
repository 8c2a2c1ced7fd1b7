"""A job that prints what readers of a topic see: rows of committed transactions, and none that are open or aborted.

    python examples/read_committed.py                      # topic ws, what comes from now on
    python examples/read_committed.py --topic averages     # another topic

Every KafkaSource reads with isolation.level=read_committed; no option is needed, and none makes it read more.
"""

from __future__ import annotations

import argparse

from topics import make_topics

from tidegate import Job, KafkaSource, PrintSink


def declare(servers: str, topic: str) -> Job:
    """The job: every committed row, printed."""
    job = Job(f"read-{topic}", checkpointing_interval="1s", checkpointing_dir=".tidegate")
    rows = job.source("source", KafkaSource(servers, topics=[topic], start="latest"))
    values = rows.selectExpr("CAST(value AS STRING) AS value")
    job.query("rows", values, mode="append", sinks=[PrintSink("print", limit=1000)])
    return job


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--topic", default="ws")
    given = parser.parse_args()
    make_topics(given.servers, (given.topic,))
    declare(given.servers, given.topic).run()
