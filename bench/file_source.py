"""How fast two million rows are read from files: `FileSource` against Spark's own file source, in the same job.

Both sides run one job into the same sink, four epochs of four files each. The figure is the CPU time of all processes
of the baseline divided by that of `FileSource`: 1 is as cheap, 0.95 is the goal. Wall time stands in the samples.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.figures import Better, Figure
from bench.footprint import cpu_seconds_of_session
from bench.seen import Seen, told
from bench.session import shared_session
from tidegate import FileSink, FileSource, Job, SparkSource

ROWS = 2_000_000
FILES = 16
FILES_PER_EPOCH = 4
SCHEMA = "number LONG, customer STRING, amount DOUBLE"
CASES: Mapping[str, str] = {"files-parquet": "parquet", "files-json": "json"}
_QUICK_SHARE = 10
_GOAL = 0.95


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """The figure of one format. Every round measures the baseline, then `FileSource`; one before them warms the JVM."""
    format, rows = CASES[name], ROWS // (_QUICK_SHARE if quick else 1)
    samples: dict[str, list[float]] = {}
    with shared_session() as spark, tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        source = Path(folder) / "in"
        _write_input(source, format, rows)
        sides: Mapping[str, Callable[[], FileSource | SparkSource]] = {
            "baseline": lambda: SparkSource(
                format, schema=SCHEMA, path=str(source), maxFilesPerTrigger=FILES_PER_EPOCH
            ),
            "tidegate": lambda: FileSource(str(source), format=format, schema=SCHEMA, max_files=FILES_PER_EPOCH),
        }
        for number in range(rounds + 1):
            for side, made in sides.items():
                place = Path(folder) / f"{side}-{number}"
                place.mkdir()
                before = cpu_seconds_of_session()
                seconds = _run(spark, made(), place, rows)
                if number:
                    samples.setdefault(f"{side} cpu s", []).append(round(cpu_seconds_of_session() - before, 2))
                    samples.setdefault(f"{side} s", []).append(round(seconds, 3))
    return [
        Figure(
            name=name,
            what=f"CPU time of {rows:,} rows read by Spark's own file source, divided by that of FileSource ({format})",
            value=round(median(samples["baseline cpu s"]) / median(samples["tidegate cpu s"]), 2),
            unit="x",
            better=Better.HIGHER,
            goal=_GOAL,
            samples=samples,
        )
    ]


def _write_input(folder: Path, format: str, rows: int) -> None:
    folder.mkdir()
    count = rows // FILES
    for file in range(FILES):
        numbers = range(file * count, (file + 1) * count)
        columns = {
            "number": list(numbers),
            "customer": [f"customer-{number % 50_000:06}" for number in numbers],
            "amount": [number / 100 for number in numbers],
        }
        path = folder / f"{file:03}.{format}"
        if format == "parquet":
            pq.write_table(pa.table(columns), path)
        else:
            names, values = list(columns), zip(*columns.values(), strict=True)
            path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in values))
        os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))


def _run(spark: SparkSession, source: FileSource | SparkSource, place: Path, rows: int) -> float:
    """The seconds from the first epoch's begin until the sums of the last one can be read."""
    job = Job("bench", spark=spark, checkpointing_interval=0, checkpointing_dir=str(place / "checkpoints"))
    counts = job.source("source", source).groupBy().agg(F.count("*").alias("n"), F.sum("amount").alias("sum"))
    sink = FileSink("sink", place / "out", format="json")
    job.query("query", counts, mode="update", sinks=[sink])
    epochs = FILES // FILES_PER_EPOCH
    seen = Seen.of_job(place / "checkpoints", epochs)
    with told(seen):
        job.run(until="caught-up")
    last = max((place / "out").glob("*.json"), key=lambda path: path.name)
    if (found := json.loads(last.read_text())["n"]) != rows // FILES * FILES:
        raise ValueError(f"{found} rows were read instead of {rows}")
    return seen.seconds(epochs - 1)
