"""One query whose checkpoint is on the storage of the second argument. Its requests are counted: this program prints
those of an epoch, as JSON.

The third argument is the number of files, which are as many epochs; the fourth the seconds that the job is idle after
them. With a fifth one the rows come from a source behind an ingest log, one after each epoch.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow as pa

from tests.support.counted import Counted, counting
from tests.support.session import small_session
from tidegate import FileSource, Job, SQLiteSink
from tidegate.core.happenings import EpochDone
from tidegate.spark.listeners import JobEvent
from tidegate.testing.memory_source import MemorySource

WARM = 4
"""So many epochs come before the first that is counted."""
REST_SECONDS = 12.0
"""After the last epoch, until what it leaves to be written is written."""


def main(folder: Path, checkpoints: str, files: str, idle_seconds: str = "0", source: str = "files") -> None:
    # Of S3 the session of tidegate has the jars: a program that makes its own brings them.
    spark = None if checkpoints.startswith("s3:") else small_session()
    counted = Counted()
    done: list[int] = []
    queue = MemorySource(pa.schema([("value", pa.string())]))
    queue.add([{"value": "sea"}])

    def listen(event: JobEvent) -> None:
        if isinstance(event.happening, EpochDone):
            done.append(event.happening.epoch)
            if len(done) < int(files):
                queue.add([{"value": "sea"}])

    job = Job("words", spark=spark, checkpointing_dir=checkpoints, checkpointing_interval=0, listeners=[listen])
    if source == "files":
        lines = job.source("lines", FileSource(str(folder / "in"), format="text", maxFilesPerTrigger=1))
    else:
        lines = job.source("lines", queue, durable=True)
    counts = lines.groupBy("value").count()
    job.query("counts", counts, sinks=[SQLiteSink("table", folder / "out.db", table="t", key=["value"])], mode="update")
    last = int(files) - 1
    with counting(counted):
        handle = job.start()
        while (not done or done[-1] < last) and not handle.wait(0.1):
            pass
        time.sleep(REST_SECONDS if float(idle_seconds) else 0)
        idle_from = counted.now()
        time.sleep(float(idle_seconds))
        idle_until = counted.now()
        handle.stop()
    of_epochs = counted.between_records("ledger/done", WARM, last)
    of_an_epoch = {request: round(count / (last - WARM), 2) for request, count in of_epochs.items()}
    idle = counted.between(idle_from, idle_until)
    print(json.dumps({"of_an_epoch": of_an_epoch, "idle": idle}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
