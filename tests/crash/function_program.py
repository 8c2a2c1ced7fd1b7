"""A job with an existing `foreachBatch` function beside a table. The function keeps a log of its calls.

The second argument, if any, is a file: the driver writes its process id there and holds when the function has
returned from its epoch 2, before the receipt of the call stands.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSource, FunctionSink, Job, SQLiteSink
from tidegate.core.records import SinkIdentity
from tidegate.sinks.standing import Entry

HELD_EPOCH = 2


class HeldSink(FunctionSink):
    """Holds between the function's return and the receipt."""

    hold: Path | None = None

    def _put_receipt(self, identity: SinkIdentity, entry: Entry) -> None:
        if self.hold is not None and entry.epoch == HELD_EPOCH:
            self.hold.write_text(f"{entry.epoch} {os.getpid()}")
            threading.Event().wait()
        super()._put_receipt(identity, entry)


def main(folder: Path, hold: Path | None) -> None:
    spark = small_session()

    def log(rows: DataFrame, epoch: int) -> None:
        found = sorted([row.value, row.lucky] for row in rows.collect())
        with (folder / "calls").open("a") as calls:
            calls.write(json.dumps([epoch, found]) + "\n")
            calls.flush()
            os.fsync(calls.fileno())

    job = Job("functions", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    lines = job.source("lines", FileSource(str(folder / "in"), format="text", maxFilesPerTrigger=1))
    lucky = F.udf(random.random, "double").asNondeterministic()
    sink = HeldSink("function", log)
    sink.hold = hold
    table = SQLiteSink("table", folder / "out.db", table="lines")
    job.query("handed", lines.withColumn("lucky", lucky()), sinks=[sink, table])
    job.run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
