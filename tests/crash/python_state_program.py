"""A custom state function draws a random number when it first sees a word and keeps it.

Every row that is ever published for the word must carry that number.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job


def main(folder: Path) -> None:
    spark = small_session()
    job = Job("draws", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    lines = job.source("lines", FileSource(str(folder / "in"), format="text", maxFilesPerTrigger=1))
    drawn = (
        lines.select(F.explode(F.split("value", " ")).alias("word"))
        .groupBy("word")
        .applyInPandasWithState(
            draw,
            "word string, seen long, draw double",
            "seen long, draw double",
            "update",
            GroupStateTimeout.NoTimeout,
        )
    )
    job.query("draws", drawn, mode="update", sinks=[FileSink("out", str(folder / "draws"), format="parquet")])
    job.run(until="caught-up")


def draw(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    seen, drawn = state.get if state.exists else (0, random.random())
    seen += sum(len(frame) for frame in frames)
    state.update((seen, drawn))
    yield pd.DataFrame({"word": [key[0]], "seen": [seen], "draw": [drawn]})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
