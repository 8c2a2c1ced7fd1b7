"""What a Delta sink costs against `write_deltalake`, the library's own append.

Two million rows of six columns into a table on the disk, from two writers in processes of their own, as the tasks of an
epoch. The baseline appends the rows of each writer by `write_deltalake`, which makes a commit a writer and syncs
nothing. The sink stages its files, syncs them, and one driver makes one commit for both. The table is new before each
side. The figure is the baseline's time divided by the sink's.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.figures import Figure
from bench.sink_contest import (
    QUICK_SHARE,
    SCHEMA,
    WRITERS,
    epoch_of,
    in_each,
    made,
    plan_of,
    samples_of,
    speed,
    writers_of,
)
from tidegate import DeltaSink

ROWS = 2_000_000
GOAL = 0.9


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round appends by the library, then runs an epoch of the sink."""
    rows = ROWS // (QUICK_SHARE if quick else 1)
    share = rows // WRITERS
    with writers_of(share) as writers, tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        table = Path(folder) / "table"
        sink = DeltaSink("table", table)

        def baseline(_: int) -> None:
            in_each(writers, appended, table, share)

        def tidegate(number: int) -> Mapping[str, float]:
            return epoch_of(sink, writers, number, rows)

        def before(_: int) -> None:
            shutil.rmtree(table, ignore_errors=True)
            sink.open(plan_of())

        samples = samples_of({"baseline": baseline, "tidegate": tidegate}, rounds, None, before)
    what = (
        f"speed of {rows:,} rows into a Delta table by {WRITERS} writers; baseline: `write_deltalake` of the same rows"
        " by as many, without syncs"
    )
    return [speed("sink-delta", what, samples, GOAL)]


def appended(table: Path, rows: int, writer: int) -> None:
    """The library's append of the rows of a writer."""
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(str(table), pa.RecordBatchReader.from_batches(SCHEMA, made(writer, rows)), mode="append")
