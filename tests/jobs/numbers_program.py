"""Numbers from files into a table, until told otherwise: the job that the supervisor's tests strike.

What the folder holds steers it: while there is a file `broken`, epochs fail.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.session import small_session
from tidegate import FileSource, Job, SQLiteSink


def main(folder: Path, until: str) -> None:
    spark = small_session()
    broken = str(folder / "broken")

    def unless_broken(number: int) -> int:
        import os

        if os.path.exists(broken):
            raise ValueError("broken on purpose")
        return number

    job = Job("numbers", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval="50ms")
    source = FileSource(str(folder / "in"), format="json", schema="number int", maxFilesPerTrigger=1)
    numbers = job.source("numbers", source)
    rows = numbers.select(spark.udf.register("unless_broken", unless_broken, "int")("number").alias("number"))
    job.query("copies", rows, sinks=[SQLiteSink("table", folder / "out.db", table="numbers")])
    job.run(until="caught-up" if until == "caught-up" else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
