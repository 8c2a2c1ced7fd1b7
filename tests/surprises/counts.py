"""A small job with state that runs on either version of Spark; as a program, it starts it twice and says which it was.

The program's argument is the folder of a `Place`, whose input is there already.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from tests.integration.place import Place, run
from tidegate import FileSink, Job, SQLiteSink


def counts_job(place: Place) -> Job:
    """Words counted into a table with a key and into files."""
    job = place.job()
    counts = place.words(job).groupBy("word").count()
    table = SQLiteSink("table", place.folder / "out.db", table="counts", key=["word"])
    job.query("query", counts, mode="update", sinks=[table, FileSink("files", place.folder / "out", format="json")])
    return job


def main(folder: Path) -> None:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    place = Place(folder, session, folder / "in")
    place.write("sea", "sand", "sea")
    place.write("sea")
    run(counts_job(place))
    place.write("wind", "sand")
    run(counts_job(place))
    print(pyspark.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
