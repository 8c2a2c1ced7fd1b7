"""A topic into a table, in a driver of its own: arguments are the folder, the servers, the topic, start, and until."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.support.session import small_session
from tidegate import Job, KafkaSource, SQLiteSink


def main(folder: Path, servers: str, topic: str, start: Any, until: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = small_session()
    job = Job("job", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    rows = job.source("lines", KafkaSource(servers, topics=[topic], start=start, max_rows=1000))
    values = rows.selectExpr("cast(value as string) as value", "partition", "offset")
    job.query("query", values, sinks=[SQLiteSink("table", folder / "out.db", table="lines")])
    job.run(until="caught-up" if until == "caught-up" else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
