"""A small job with state that runs on either version of Spark; as a program, it starts it twice, and loses a file of
another job, and says which Spark it was.

The program's argument is the folder of a `Place`, whose input is there already.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pyspark
from pyspark.sql import functions as F

from tests.integration.place import Place, run
from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job, SQLiteSink, TidegateError


def counts_job(place: Place) -> Job:
    """Words counted into a table with a key and into files."""
    job = place.job()
    counts = place.words(job).groupBy("word").count()
    table = SQLiteSink("table", place.folder / "out.db", table="counts", key=["word"])
    job.query("query", counts, mode="update", sinks=[table, FileSink("files", place.folder / "out", format="json")])
    return job


def lost_job(place: Place, *, fails: bool) -> Job:
    """Words of folders that are partitions, with the names of their files; `fails`: no epoch of it is ever done."""
    job = place.job("lost")
    source = FileSource(str(place.folder / "by-day"), format="json", schema="word string, day int", lost="skip")
    word = F.when(F.col("word").isNotNull(), F.raise_error(F.lit("cut off"))) if fails else F.col("word")
    rows = job.source("files", source).select(word.cast("string").alias("word"), "day", "_metadata.file_name")
    job.query("query", rows, sinks=[SQLiteSink("table", place.folder / "out.db", table="lost")])
    return job


def lose_a_file(place: Place) -> None:
    """An epoch is cut off, and its only file goes: it comes again without any."""
    day = place.folder / "by-day" / "day=7"
    day.mkdir(parents=True)
    (day / "a.json").write_text('{"word": "lost"}')
    with suppress(TidegateError):
        run(lost_job(place, fails=True))
    (day / "a.json").unlink()
    (day / "b.json").write_text('{"word": "sea"}')
    run(lost_job(place, fails=False))


def main(folder: Path) -> None:
    session = small_session()
    place = Place(folder, session, folder / "in")
    place.write("sea", "sand", "sea")
    place.write("sea")
    run(counts_job(place))
    place.write("wind", "sand")
    run(counts_job(place))
    lose_a_file(place)
    print(pyspark.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
