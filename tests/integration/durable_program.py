"""Rows of a source that gives each row once, behind an ingest log, into a table.

    python durable_program.py FOLDER queue|stream [caught-up]

`queue` is a RowSource whose positions outlive the process; `stream` is a Python data source of Spark's.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tidegate import Job, SparkSource, SQLiteSink
from tidegate.source_api import Position, Range, Replay, RowSource, Traits

SCHEMA = pa.schema([("n", pa.int64())])
ROWS_PER_SECOND = 400


class Ticks(RowSource):
    """A number for each moment since *born* was written: positions outlive the process. What was reported done is
    refused when it is read again."""

    traits: ClassVar[Traits] = Traits(Replay.FORWARD)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def schema(self) -> pa.Schema:
        return SCHEMA

    def oldest(self) -> Position:
        return {"ticks": self._done()}

    def newest(self) -> Position:
        return {"ticks": int((time.time() - float((self.folder / "born").read_text())) * ROWS_PER_SECOND)}

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        if wanted.begin < self._done():
            raise OSError("these rows were reported done")
        numbers = range(wanted.begin, wanted.end)
        yield pa.RecordBatch.from_pydict({"n": [*numbers]}, schema=SCHEMA)

    def done(self, position: Position) -> None:
        draft = self.folder / "done.draft"
        draft.write_text(str(position["ticks"]))
        draft.rename(self.folder / "done")

    def _done(self) -> int:
        file = self.folder / "done"
        return int(file.read_text()) if file.exists() else 0


class Once(DataSource):
    """A data source without a memory: a range that is read again has other numbers."""

    traits: ClassVar[Traits] = Traits(Replay.NONE)

    @classmethod
    def name(cls) -> str:
        return "once"

    def schema(self) -> str:
        return "n long, at timestamp"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return OnceReader()


class OnceReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"at": time.time_ns()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return {"at": time.time_ns()} if time.time_ns() - start["at"] > 50_000_000 else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, datetime]]:
        for _ in range(10):
            yield random.getrandbits(60), datetime.now(timezone.utc)


def main(folder: str, kind: str, until: str = "") -> None:
    place = Path(folder)
    job = Job(
        "rows",
        checkpointing_dir=str(place / "checkpoints"),
        checkpointing_interval="100ms",
        checkpointing_retained=1_000_000,  # so that nothing is trimmed, and the test can read all that ever arrived
    )
    rows = job.source("rows", Ticks(place) if kind == "queue" else SparkSource(Once), durable=True)
    job.query("query", rows, sinks=[SQLiteSink("table", str(place / "out.db"), table="numbers")])
    job.run(until="caught-up" if until == "caught-up" else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
