"""A checkpoint with empty state: for a query that resumes only from the positions of its sources.

Spark starts no query without the stores of its operators. So Spark itself writes them: it runs the query for one epoch
over sources without rows, in the still hidden folder of the new generation. The positions and the watermark of the
savepoint are then written behind that epoch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.checkpoints.spark_layout import METADATA, SOURCES, checksum_of, commits_entry, offsets_entry
from tidegate.core.records import SavedQuery
from tidegate.core.spark_log import parse_offsets, with_watermark
from tidegate.disk.walking import files_below
from tidegate.savepoints.log_change import with_next_watermark, with_positions
from tidegate.savepoints.operator_metadata import moved_to, names_schemas
from tidegate.spark.full_disk import full_disk
from tidegate.spark.graft import graft
from tidegate.spark.no_data import DueEpoch, no_data_epochs
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.refusals import not_restored
from tidegate.spark.session import query_settings
from tidegate.spark.task_files import TaskFiles


def begin_empty(
    session: SparkSession,
    plan: QueryPlan,
    saved: SavedQuery,
    places: tuple[int | None, ...],
    files: TaskFiles,
    checkpoint: Path,
) -> None:
    """Make `checkpoint` one of an epoch 0 that ends where the savepoint does, with empty state. Its final place is
    below `plan.folder`. It does not contain the logs of the sources. `files`: for the tasks of that epoch.
    """
    try:
        with _without_rows(files) as source, files.written(checkpoint) as written:
            _run(session, plan, source, written)
    except PySparkException as error:
        full = full_disk(error)
        if full is not None:
            raise full from None
        raise not_restored(
            "empty state for the query's operators",
            str(error).split("\n")[0][:500],
            str(plan.query),
            "`tidegate check APP` tells whether Spark can run the query at all",
        ) from None
    shutil.rmtree(checkpoint / SOURCES)
    for name in (METADATA, checksum_of(METADATA)):
        (checkpoint / name).unlink(missing_ok=True)
    _go_on_behind(saved, places, checkpoint)
    _lead_into((plan.folder / "spark").for_spark(), checkpoint)


@contextmanager
def _without_rows(files: TaskFiles) -> Generator[str, None, None]:
    """A context with the URI of an input that has a file, and no row."""
    with TemporaryDirectory(prefix="tidegate-empty-") as folder:
        (Path(folder) / "empty.json").write_text("\n")
        with files.read(Path(folder)) as source:
            yield source


def _run(session: SparkSession, plan: QueryPlan, source: str, checkpoint: str) -> None:
    def no_rows(leaf: Any) -> DataFrame | None:
        if not str(leaf.getClass().getSimpleName()).startswith("StreamingRelation"):
            return None
        schema = StructType.fromJson(json.loads(str(leaf.schema().json())))
        return session.readStream.format("json").schema(schema).load(source)

    with query_settings(session, plan.conf), no_data_epochs(session, DueEpoch.LEFT):
        rows = graft(session, plan.rows, no_rows)
        writer = rows.writeStream.outputMode(plan.mode).format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", checkpoint).start()
    query.awaitTermination()


def _go_on_behind(saved: SavedQuery, places: tuple[int | None, ...], checkpoint: Path) -> None:
    offsets, commits = checkpoint / offsets_entry(0), checkpoint / commits_entry(0)
    before = parse_offsets(saved.done.offsets)
    watermark = 0 if before is None else before.watermark_ms
    lines = [None if place is None or before is None else before.positions[place] for place in places]
    offsets.write_bytes(with_watermark(with_positions(offsets.read_bytes(), lines), watermark))
    commits.write_bytes(with_next_watermark(commits.read_bytes(), saved.watermark_ms))
    for entry in (offsets, commits):
        entry.with_name(checksum_of(entry.name)).unlink(missing_ok=True)


def _lead_into(final: str, checkpoint: Path) -> None:
    """Spark refers to schemas by absolute path, so the paths must show the checkpoint's final place."""
    for folder, names in files_below(checkpoint):
        for path in (folder / name for name in names):
            if names_schemas(path.relative_to(checkpoint).as_posix()):
                if path.name.endswith(".crc"):
                    path.unlink()
                else:
                    path.write_bytes(moved_to(path.read_bytes(), final, str(path)))
