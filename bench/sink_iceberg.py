"""What an Iceberg sink costs against `Table.append`, the library's own append.

Two million rows of six columns into a table on the disk, with its catalog in one SQLite file, from two writers in
processes of their own, as the tasks of an epoch. The baseline appends the rows of each writer by pyiceberg, which makes
a commit a writer and syncs nothing. The sink stages its files, syncs them, and one driver makes one commit for both.
Catalog and table are new before each side. The figure is the baseline's time divided by the sink's.
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
from tidegate import IcebergSink

ROWS = 2_000_000
GOAL = 0.9
_TABLE = "lake.rows"


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round appends by the library, then runs an epoch of the sink."""
    rows = ROWS // (QUICK_SHARE if quick else 1)
    share = rows // WRITERS
    with writers_of(share) as writers, tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        sides: list[IcebergSink] = []

        def before(_: int) -> None:
            """A folder for each side: clients keep a connection to the catalog's file."""
            shutil.rmtree(_side(folder, len(sides) - 1), ignore_errors=True)
            sides.append(_sink(_side(folder, len(sides))))
            sides[-1].open(plan_of())

        def baseline(_: int) -> None:
            in_each(writers, appended, _side(folder, len(sides) - 1), share)

        def tidegate(number: int) -> Mapping[str, float]:
            return epoch_of(sides[-1], writers, number, rows)

        samples = samples_of({"baseline": baseline, "tidegate": tidegate}, rounds, None, before)
    what = (
        f"speed of {rows:,} rows into an Iceberg table by {WRITERS} writers; baseline: pyiceberg's `append` of the same"
        " rows by as many, without syncs"
    )
    return [speed("sink-iceberg", what, samples, GOAL)]


def appended(side: Path, rows: int, writer: int) -> None:
    """The library's append of the rows of a writer."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    table = load_catalog("bench", **_properties(side)).load_table(_TABLE)
    table.append(pa.Table.from_batches(made(writer, rows), SCHEMA))


def _side(folder: str, number: int) -> Path:
    return Path(folder) / str(number)


def _sink(side: Path) -> IcebergSink:
    side.mkdir()
    return IcebergSink("table", _TABLE, catalog="bench", catalog_properties=_properties(side))


def _properties(side: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{side}/catalog.db", "warehouse": f"file://{side}/warehouse"}
