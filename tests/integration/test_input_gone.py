"""Input of a file source is removed before a job goes on from a savepoint: what was read is not needed any more, and
without the folder nothing is begun."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, Row, error_of, wait_until_finished
from tests.support.command import tidegate
from tests.support.today import turn
from tidegate import FileSink, Job, SQLiteSink
from tidegate.cli.exits import Exit


def words_and_windows(place: Place, name: str = "job") -> Job:
    """Words as they come into a table; windows of ten seconds, when they have closed, into files."""
    job = place.job(name)
    events = place.source(job, "events", "at timestamp, word string")
    job.query("words", events.select("word"), sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    windows = events.withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds")).count()
    closed = windows.select(F.date_format("window.start", "HH:mm:ss").alias("start"), F.col("count").alias("n"))
    job.query("windows", closed, sinks=[FileSink("files", place.folder / "out", format="json")])
    return job


def event(time: str, word: str) -> Row:
    return {"at": f"2024-01-01T00:00:{time}Z", "word": word}


def saved(place: Place) -> Path:
    """Two files are read, one an epoch, and a window of three rows has begun; the job has ended with a savepoint."""
    place.write(event("01", "sea"), event("02", "sand"))
    place.write(event("03", "sea"))
    handle = words_and_windows(place).start()
    for query in range(2):
        wait_until_finished(handle, 1, query)
    path = handle.stop_with_savepoint(place.folder / "saved", id="one")
    assert (place.table(), windows_out(place)) == ([("sand",), ("sea",), ("sea",)], [])
    return path


def go_on(place: Place, savepoint: Path) -> None:
    words_and_windows(place).start(until="caught-up", savepoint=savepoint).wait()


def windows_out(place: Place) -> list[tuple[str, int]]:
    return [(row["start"], row["n"]) for rows in place.files().values() for row in rows]


def everything(folder: Path) -> dict[str, bytes]:
    """Every file, but those that say who looks at it now."""
    files = [path for path in folder.rglob("*") if path.is_file() and "/locks/" not in str(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@turn(2, of=4)
def test_files_that_were_read_before_the_savepoint_are_not_needed_any_more(place: Place):
    path = saved(place)
    place.write(event("04", "wind"), event("16", "salt"))
    for number in range(2):
        (place.input / f"00{number}.json").unlink()
    go_on(place, path)
    assert place.table() == [("salt",), ("sand",), ("sea",), ("sea",), ("wind",)]
    assert windows_out(place) == [("00:00:00", 4)], "three rows of files that are gone, and one since"


@turn(1, of=3)
def test_a_file_that_came_and_went_before_the_restore_is_missed_by_nobody(place: Place):
    path = saved(place)
    place.write(event("04", "gone"))
    place.write(event("05", "wind"), event("16", "salt"))
    (place.input / "002.json").unlink()
    go_on(place, path)
    assert place.table() == [("salt",), ("sand",), ("sea",), ("sea",), ("wind",)]
    assert windows_out(place) == [("00:00:00", 4)]


def test_without_the_folder_nothing_is_touched_and_with_it_the_same_restore_is_exact(place: Place):
    path = saved(place)
    place.write(event("04", "wind"), event("16", "salt"))
    aside = place.input.rename(place.folder / "aside")
    before = everything(place.folder)
    error = error_of(lambda: go_on(place, path))
    assert (error.code, error.where) == ("TG-SOURCE-REFUSED", "job job, source events")
    assert f"Path does not exist: {place.input}" in error.found
    assert error.next_step == "put back what the path names, or mend the path, then start again"
    assert everything(place.folder) == before
    aside.rename(place.input)
    go_on(place, path)
    assert place.table() == [("salt",), ("sand",), ("sea",), ("sea",), ("wind",)]
    assert windows_out(place) == [("00:00:00", 4)]


PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tidegate import FileSource, FileSink, Job

here = Path(sys.argv[1])
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
job = Job("job", spark=spark, checkpointing_dir=str(here / "checkpoints"))
source = FileSource(str(here / "in"), format="json", schema="at timestamp, word string")
if sys.argv[2] == "plain":
    source = spark.readStream.schema("at timestamp, word string").json(str(here / "in"))
events = job.source("events", source)
job.query("words", events, sinks=[FileSink("files", here / "out", format="json")])
job.run()
"""


@pytest.mark.more
@pytest.mark.parametrize(
    ("source", "code"), [("described", "TG-SOURCE-REFUSED"), ("plain", "TG-PROGRAM-FAILED")], ids=["described", "plain"]
)
def test_the_commands_name_the_folder_that_is_gone(place: Place, source: str, code: str):
    path = saved(place)
    (place.folder / "app.py").write_text(PROGRAM)
    shutil.rmtree(place.input)
    before = everything(place.folder)
    program = [str(place.folder / "app.py"), "--", str(place.folder), source]
    done = tidegate("savepoint", "check", "--json", "-s", str(path), *program)
    assert done.code == Exit.REFUSED
    assert json.loads(done.stdout)["verdict"] == "impossible"
    assert f"Path does not exist: {place.input}" in done.stdout
    ran = tidegate("run", "-s", str(path), *program[:1], *program[2:])
    assert ran.code == Exit.FAILED
    assert code in ran.stderr
    assert f"Path does not exist: {place.input}" in ran.stderr
    assert everything(place.folder) == before
