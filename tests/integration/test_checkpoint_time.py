"""How long a checkpoint takes behind a backlog: in one query no barrier stands behind rows, and epochs stay short."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence

import pyarrow as pa
import pytest

from tests.integration.place import Place, wait_until
from tests.integration.shelf import ShelfSink
from tidegate import FileSource
from tidegate.core.records import Attempt, Committable
from tidegate.operate.checkpoints_history import read_checkpoints
from tidegate.settings.config import Settings
from tidegate.sinks.base import Transaction

MILLION = 1_000_000
FILES = 500
LINE = "x" * 255
"""With its end it is as long as a piece of a file, by which the source counts."""
SECONDS_A_ROW = 120e-6
"""In each of two tasks: the sink takes about 16,000 rows a second."""
TARGET_SECONDS = Settings(checkpointing_interval=0).backlog_interval


class SlowSink(ShelfSink):
    """Takes its time with each row."""

    def begin(self, attempt: Attempt) -> Transaction:
        return _SlowTransaction(super().begin(attempt))


class _SlowTransaction(Transaction):
    def __init__(self, quick: Transaction) -> None:
        self._quick = quick

    def write(self, batch: pa.RecordBatch) -> None:
        time.sleep(batch.num_rows * SECONDS_A_ROW)
        self._quick.write(batch)

    def pre_commit(self) -> Committable | None:
        return self._quick.pre_commit()

    def abort(self) -> None:
        self._quick.abort()


@pytest.mark.more
@pytest.mark.timeout(900)
def test_behind_a_million_rows_a_checkpoint_of_one_query_takes_the_target_of_an_epoch_and_one_epoch_at_most(
    place: Place,
) -> None:
    """The need that unaligned checkpoints serve elsewhere. The job runs when the rows come, all of them at once."""
    job = place.job(checkpointing_interval=0)
    lines = job.source("lines", FileSource(str(place.input), format="text", settle=0))
    job.query("count", lines.selectExpr("length(value) AS letters"), sinks=[SlowSink("slow", place.folder)])
    file_of("first", place, 1)
    handle = job.start()
    try:
        wait_until(lambda: handle.status().queries[0].rows == 1, "the first row")
        for number in range(FILES):
            file_of(f"{number}", place, MILLION // FILES)
        end = time.monotonic() + 600
        while handle.status().queries[0].rows < MILLION + 1:
            assert time.monotonic() < end
            time.sleep(0.5)
    finally:
        handle.stop()
    done = read_checkpoints(place.checkpoints / "job")
    seconds = [each.duration_ms / 1000 for each in done if each.rows > MILLION // FILES and each.duration_ms]
    assert sum(each.rows for each in done) == MILLION + 1
    assert percentile(seconds, 0.99) <= TARGET_SECONDS + statistics.median(seconds), sorted(seconds)


def file_of(name: str, place: Place, lines: int) -> None:
    """A file is complete when it has its name."""
    hidden = place.folder / name
    hidden.write_text(f"{LINE}\n" * lines)
    hidden.rename(place.input / f"{name}.txt")


def percentile(values: Sequence[float], part: float) -> float:
    """The least of the values that is not below this part of them."""
    return sorted(values)[math.ceil(part * len(values)) - 1]
