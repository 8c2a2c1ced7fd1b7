"""A job that begins anew in an empty generation, beside the rows that it has shown."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.integration.place import Place
from tests.integration.test_restore import job_record
from tidegate import FileSink, Job, SQLiteSink


def counting(place: Place, query: str = "query", **settings: Any) -> Job:
    """Running counts into a table by key, and the same rows into files, which keep every epoch."""
    job = place.job(**settings)
    counts = place.words(job).groupBy("word").count()
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query(query, counts, mode="update", sinks=[table, FileSink("files", place.folder / "out", format="json")])
    return job


def run(job: Job, **how: Any) -> None:
    job.start(until="caught-up", **how).wait()


def test_a_job_begins_anew_once_in_an_empty_generation(place: Place):
    place.write("sea")
    place.write("sea")
    run(counting(place))
    assert place.table() == [("sea", 2)]

    run(counting(place), fresh="a new count")
    assert job_record(place).generation == 2
    assert counts_in_files(place) == [(1, 0, 1), (1, 1, 2), (2, 0, 1), (2, 1, 2)]
    assert place.table() == [("sea", 2)], "its state was empty"
    assert [path.name for path in place.query().parent.iterdir()] == ["g2"]

    place.write("sea")
    run(counting(place), fresh="a new count")  # as a supervisor starts the program again
    assert (job_record(place).generation, place.table()) == (2, [("sea", 3)])
    run(counting(place))
    assert job_record(place).generation == 2


def counts_in_files(place: Place) -> list[tuple[int, int, int]]:
    """(generation, epoch, count) by file."""
    found: list[tuple[int, int, int]] = []
    for path in (place.folder / "out").glob("*.json"):
        generation, epoch = re.findall(r"-[ge](\d+)-e(\d+)-", path.name)[0]
        found.append((int(generation), int(epoch), json.loads(path.read_text())["count"]))
    return sorted(found)
