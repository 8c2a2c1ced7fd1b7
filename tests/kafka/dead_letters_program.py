"""A job that writes words into a topic with a small max.message.bytes; its dead letters go into a topic or a table."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.session import small_session
from tidegate import FileSource, Job, KafkaSink, SQLiteSink


def main(folder: Path, servers: str, topic: str, dead_topic: str) -> None:
    spark = small_session()
    job = Job("words", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    words = job.source("words", FileSource(str(folder / "in"), format="text", maxFilesPerTrigger=1))
    out = KafkaSink("topic", servers, topic=topic, transaction_timeout=60)
    dead = (
        KafkaSink("dead", servers, topic=dead_topic, key="sink", transaction_timeout=60)
        if dead_topic
        else SQLiteSink("dead", folder / "dead.db", table="letters")
    )
    job.query("query", words, sinks=[out], dead_letters=dead)
    job.run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4])
