"""A driver under test: it starts the same job again whenever it is told to, in one process and one JVM.

While the file `busy` stands in its folder, the sink takes nothing; while `slow` does, an epoch's tasks do not end;
while `at-STEP` does, a savepoint gets no further than that step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tests.integration.shelf import ShelfSink
from tests.support.session import small_session
from tidegate import FileSource, Job, TidegateError
from tidegate.core.records import Answer, Committable
from tidegate.spark import starting


class SulkingSink(ShelfSink):
    """Puts commits off while there is a file `busy`."""

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        self.moods.busy = 1 if (self.folder / "busy").exists() else 0
        return super().commit(committables)


def main(folder: Path) -> None:
    spark = small_session()

    def slowly(word: str) -> str:
        while (folder / "slow").exists():
            time.sleep(0.02)
        return word

    def hold_up(step: str) -> None:
        while (folder / f"at-{step}").exists():
            time.sleep(0.02)

    starting.Starting._reach = lambda self, step: hold_up(step)  # pyright: ignore[reportPrivateUsage]
    for _ in sys.stdin:
        settings: dict[str, Any] = {"checkpointing_dir": str(folder / "checkpoints"), "checkpointing_interval": "50ms"}
        job = Job("words", spark=spark, stop_timeout="1s", **settings)
        source = FileSource(str(folder / "in"), format="json", schema="word string", maxFilesPerTrigger=1)
        rows = job.source("lines", source).select(F.udf(slowly, "string")("word").alias("word"))
        job.query("copy", rows, sinks=[SulkingSink("shelf", folder)])
        try:
            job.run()
            print("ended", flush=True)
        except TidegateError as error:
            print(error.code, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
