"""Running counts of numbers, with state. The task that finds the file `mined` removes it and sleeps far too long."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.session import small_session
from tidegate import FileSource, Job, SQLiteSink


def main(folder: Path) -> None:
    spark = small_session()
    mined = str(folder / "mined")

    def step(number: int) -> int:
        import time
        from pathlib import Path

        if Path(mined).exists():
            Path(mined).unlink()
            time.sleep(3600)
        return number

    job = Job("numbers", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval="50ms")
    source = FileSource(str(folder / "in"), format="json", schema="number int", maxFilesPerTrigger=1)
    numbers = job.source("numbers", source)
    rows = numbers.select((spark.udf.register("step", step, "int")("number") % 2).alias("number"))
    table = SQLiteSink("table", folder / "out.db", table="numbers", key="number")
    job.query("counts", rows.groupBy("number").count(), mode="update", sinks=[table])
    job.run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
