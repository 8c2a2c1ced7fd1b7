"""A job with state for either version of Spark: FOLDER BACKEND begin, or FOLDER BACKEND go-on JOB SAVEPOINT.

It says on its standard error what tidegate logs, and on its standard output with which Spark it ran. The input is in
FOLDER/in; the outputs are in FOLDER/out-JOB, so that several jobs can go on from one savepoint.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pyspark
from pyspark.sql import functions as F

from tests.integration.place import NO_DATA_EPOCHS, Place, wait_until_finished
from tests.support.session import small_session
from tidegate import FileSink, Job


def job_of(place: Place, backend: str, name: str) -> Job:
    """Each event once, counted in windows of ten seconds, which come out when they have closed."""
    job = place.job(name, state_backend=backend)
    events = place.source(job, "events", "at timestamp, word string").withWatermark("at", "5 seconds")
    windows = events.dropDuplicates(["word", "at"]).groupBy(F.window("at", "10 seconds")).count()
    closed = windows.select(F.date_format("window.start", "HH:mm:ss").alias("start"), F.col("count").alias("n"))
    job.query("windows", closed, sinks=[FileSink("files", place.folder / f"out-{name}", format="json")])
    return job


def main(folder: Path, backend: str, action: str, name: str = "job", savepoint: str = "") -> None:
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("tidegate").setLevel(logging.INFO)
    session = small_session(**{NO_DATA_EPOCHS: "true"})
    job = job_of(Place(folder, session, folder / "in"), backend, name)
    if action == "begin":
        handle = job.start()
        wait_until_finished(handle, 0)
        handle.savepoint(folder / "saved", id="canonical", format="canonical")
        handle.stop_with_savepoint(folder / "saved", id="native")
    else:
        job.start(until="caught-up", savepoint=savepoint).wait()
    print(pyspark.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
