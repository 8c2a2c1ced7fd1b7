"""A thousand small files an epoch: `FileSource` into a `FileSink`, beside Spark's own file source into nothing.

A file has ten rows of JSON. Spark's source is read by plain Spark, whose `foreachBatch` computes every row and writes
it nowhere, so it is what Spark itself needs for such an epoch. The time is that of an epoch after the first.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from bench.figures import Better, Figure
from bench.footprint import cpu_seconds_of_session
from bench.seen import Seen, told
from bench.session import shared_session
from tidegate import FileSink, FileSource, Job

FILES_PER_EPOCH, _QUICK_FILES_PER_EPOCH = 1000, 100
ROWS_PER_FILE = 10
SCHEMA = "number LONG, customer STRING, amount DOUBLE"
_EPOCHS = 4
_WARM_UP = 1


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round measures the baseline, then tidegate; a round before them, of fewer files, warms the JVM."""
    files = _QUICK_FILES_PER_EPOCH if quick else FILES_PER_EPOCH
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, shared_session() as spark:
        source, few = Path(folder) / "in", Path(folder) / "few"
        _write_input(source, files * _EPOCHS)
        _write_input(few, _QUICK_FILES_PER_EPOCH * _EPOCHS)
        sides = {"baseline": _run_baseline, "tidegate": _run_tidegate}
        for side, run in sides.items():
            run(spark, few, Path(folder) / side, _QUICK_FILES_PER_EPOCH)
        for number in range(rounds):
            for side, run in sides.items():
                cpu = cpu_seconds_of_session()
                seen = run(spark, source, Path(folder) / f"{side}-{number}", files)
                epoch_ms, used = seen.period_ms(_WARM_UP, _EPOCHS - 1), cpu_seconds_of_session() - cpu
                samples.setdefault(f"{side} epoch ms", []).append(epoch_ms)
                samples.setdefault(f"{side} files/s", []).append(round(files / epoch_ms * 1000, 1))
                samples.setdefault(f"{side} CPU s an epoch", []).append(round(used / _EPOCHS, 2))
    return [
        Figure(
            name="scale-files",
            what=f"time of an epoch of {files:,} JSON files of {ROWS_PER_FILE} rows, into JSON files; "
            "baseline: Spark's own file source, written nowhere",
            value=round(median(samples["tidegate epoch ms"]) / median(samples["baseline epoch ms"]), 2),
            unit="x",
            better=Better.LOWER,
            goal=None,
            samples=samples,
        )
    ]


def _write_input(folder: Path, files: int) -> None:
    folder.mkdir()
    for file in range(files):
        numbers = range(file * ROWS_PER_FILE, (file + 1) * ROWS_PER_FILE)
        rows = ({"number": each, "customer": f"customer-{each % 1000}", "amount": each / 100} for each in numbers)
        path = folder / f"{file:06}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))


def _run_baseline(spark: SparkSession, source: Path, place: Path, files: int) -> Seen:
    def nowhere(rows: DataFrame, _: int) -> None:
        rows.write.format("noop").mode("overwrite").save()

    seen = Seen(place / "checkpoint" / "offsets", _EPOCHS - 1)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).json(str(source))
    query = (
        rows.writeStream.foreachBatch(seen.noting(nowhere))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen


def _run_tidegate(spark: SparkSession, source: Path, place: Path, files: int) -> Seen:
    job = Job("bench", spark=spark, checkpointing_interval=0, checkpointing_dir=str(place / "checkpoints"))
    rows = job.source("source", FileSource(str(source), format="json", schema=SCHEMA, max_files=files))
    job.query("query", rows, sinks=[FileSink("sink", place / "out", format="json")])
    seen = Seen.of_job(place / "checkpoints", _EPOCHS - 1)
    with told(seen):
        job.run(until="caught-up")
    if (found := sum(_rows_in(path) for path in (place / "out").glob("*.json"))) != files * _EPOCHS * ROWS_PER_FILE:
        raise ValueError(f"{found} rows were written of {files * _EPOCHS} files of {ROWS_PER_FILE}")
    return seen


def _rows_in(file: Path) -> int:
    return file.read_bytes().count(b"\n")
