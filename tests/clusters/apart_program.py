"""Words of files, counted by Spark and by custom state, on a cluster whose executors have no disk in common with the
driver. The session is that of SPARK_CONF_DIR and PYSPARK_SUBMIT_ARGS.

Arguments: the folder of the checkpoints, a folder of this machine for the savepoint, and its form; then the number of
partitions of a restore, and its scope. The input and the output are beside the checkpoints.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.storages.test_remote_jobs import rows_by_word, write_input
from tidegate import FileSink, FileSource, Job, Restore
from tidegate.savepoints.restoring import Scope

BOUND_SECONDS = 400.0


class Counter(StatefulProcessor):
    """Counts the rows of a word."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        before = self.seen.get()
        count = (0 if before is None else int(before[0])) + sum(len(each) for each in rows)
        self.seen.update((count,))
        yield pd.DataFrame({"value": [key[0]], "count": [count]})

    def close(self) -> None:
        pass


def declared(checkpoints: str, partitions: int) -> Job:
    job = Job(
        "words", checkpointing_dir=checkpoints, checkpointing_interval=0, lease_timeout="240s", parallelism=partitions
    )
    lines = job.source("lines", FileSource(f"{checkpoints}-in", format="text", max_files=1, settle=0))
    counted = lines.groupBy("value").count()
    job.query("counts", counted, sinks=[FileSink("files", f"{checkpoints}-out", format="json")], mode="update")
    custom = lines.groupBy("value").transformWithStateInPandas(Counter(), "value string, count long", "Update", "None")
    # Of this one no rows are recorded, so a restore counts those in the files.
    none = lines.where("value = 'none'").groupBy("value").count()
    job.query("none", none, sinks=[FileSink("nothing", f"{checkpoints}-none-out", format="json")], mode="update")
    job.query("custom", custom, sinks=[FileSink("more", f"{checkpoints}-custom-out", format="json")], mode="update")
    return job


def wait_for(files: int, checkpoints: str) -> None:
    """Until the rows of this many files are counted by both queries."""
    end = time.monotonic() + BOUND_SECONDS
    while True:
        found = [rows_by_word(each) for each in (checkpoints, f"{checkpoints}-custom")]
        if all(len(rows) >= files for each in found for rows in each.values()):
            return
        if time.monotonic() > end:
            raise TimeoutError(f"{found}")
        time.sleep(0.2)


def main(checkpoints: str, saved: str, form: str, partitions: str, scope: str) -> None:
    write_input(checkpoints, range(1))
    first = declared(checkpoints, 2).start()
    wait_for(1, checkpoints)
    path = first.stop_with_savepoint(saved, format="canonical" if form == "canonical" else "native")
    print(f"taken: {path}", flush=True)
    write_input(checkpoints, range(1, 2))
    wish = Restore(str(path), scope=Scope(scope))
    declared(checkpoints, int(partitions)).run(until="caught-up", savepoint=wish)
    print("restored", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
