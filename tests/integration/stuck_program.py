"""A job whose sink never comes back from showing its rows, on the driver; the wait for its end is a short one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.integration.shelf import ShelfSink
from tests.support.session import small_session
from tidegate import FileSource, Job
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Committable
from tidegate.spark import epoch_watch


class HangingShelfSink(ShelfSink):
    levels: ClassVar[frozenset[Level]] = frozenset(Level)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        threading.Event().wait()
        return []


def main(folder: Path) -> None:
    epoch_watch.CUT_ENDS_WITHIN_SECONDS = 2.0
    spark = small_session()
    job = Job(
        "job",
        spark=spark,
        checkpointing_dir=str(folder / "checkpoints"),
        checkpointing_interval=0,
        checkpointing_timeout="3s",
        checkpointing_tolerable_failures=5,
    )
    words = job.source("words", FileSource(str(folder / "in"), format="json", schema="word string"))
    sink = HangingShelfSink("shelf", folder)
    sink.delivery = Level.AT_LEAST_ONCE
    job.query("query", words, sinks=[sink])
    job.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
