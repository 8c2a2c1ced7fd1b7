"""What stays of a file source: in checkpoints of Spark's own, in savepoints, and of files that are done."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, wait_until_finished
from tests.integration.test_file_source import SCHEMA, Gate, cut_off, gated_job, source, words, words_job, write
from tests.support.today import turn
from tidegate import FileSource, Job, SparkSource, SQLiteSink
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.spark_log import parse_offsets
from tidegate.sources.files.reader import position_of
from tidegate.storages.schemes import Folder


def job_of_spark(place: Place, gate: Gate) -> Job:
    """The same job over Spark's own file source: what its checkpoints were before."""
    job = place.job()
    rows = job.source("words", SparkSource("json", schema=SCHEMA, path=str(place.input), maxFilesPerTrigger=1))
    job.query("query", gate.through(rows), sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    return job


@turn(1, of=3)
def test_a_checkpoint_of_spark_s_own_file_source_is_gone_on_with(place: Place):
    gate, count = Gate(place), 12  # Spark puts ten entries of its log together
    for number in range(count):
        write(place.input, f"{number:02}.json", f"{number:02}")
    run(job_of_spark(place, gate))
    gate.shut()
    write(place.input, f"{count}.json", f"{count}")
    assert error_of(lambda: run(job_of_spark(place, gate))).code == "TG-EPOCH-FAILED"
    gate.open()
    assert len(place.log("spark/offsets")) > len(place.log("spark/commits")), "an epoch comes again"
    for number in range(count):
        (place.input / f"{number:02}.json").unlink() if number % 2 else None
    write(place.input, "99.json", "99")
    for _ in range(2):
        run(gated_job(place, gate, max_files=1))
        assert words(place) == [*(f"{number:02}" for number in range(count + 1)), "99"]


def test_a_file_of_an_undecided_epoch_of_spark_s_own_source_that_is_gone_is_named(place: Place):
    gate = Gate(place)
    gate.shut()
    file = write(place.input, "0.json", "sea")
    assert error_of(lambda: run(job_of_spark(place, gate))).code == "TG-EPOCH-FAILED"
    gate.open()
    file.unlink()
    assert error_of(lambda: run(gated_job(place, gate))).code == "TG-FILE-LOST"


def two_queries(place: Place, **options: Any) -> Job:
    job = place.job()
    rows = job.source("words", source(place.input, **options))
    for name in ("one", "two"):
        job.query(name, rows.select("word"), sinks=[SQLiteSink(f"{name}-table", place.folder / "out.db", table=name)])
    return job


@turn(2, of=4)
@pytest.mark.parametrize("options", [{"after_done": "delete"}, {"cleanSource": "delete"}, {"archive": True}])
def test_files_go_when_both_queries_have_them_and_both_have_every_row(place: Place, options: dict[str, Any]):
    archive = place.folder / "archive"
    given = {"after_done": f"archive:{archive}"} if "archive" in options else options
    expected = [f"{number}" for number in range(8)]
    for start in range(0, 8, 4):
        for number in range(start, start + 4):
            write(place.input, f"{number}.json", f"{number}")
        run(two_queries(place, max_files=1, **given))
    run(two_queries(place, max_files=1, **given))
    for table in ("one", "two"):
        assert [row[0] for row in place.table(table)] == expected
    left = sorted(path.name for path in place.input.iterdir())
    assert len(left) < 8, "those that the oldest retained checkpoint needs may stay"
    if "archive" in options:
        assert sorted([path.name for path in archive.iterdir()] + left) == [f"{number}.json" for number in range(8)]


def test_a_file_stays_while_the_slower_query_or_a_retained_checkpoint_needs_it(place: Place):
    """Spark's own source let files go behind the faster query: the slower one got two of eight rows."""
    shut = place.folder / "shut"
    shut.touch()

    def held(word: str) -> str:
        while os.path.exists(shut):
            time.sleep(0.01)
        return word

    def there() -> list[str]:
        return sorted(path.name for path in place.input.iterdir())

    names = [f"{number}.json" for number in range(8)]
    for name in names:
        write(place.input, name, name)
    job = place.job(checkpointing_retained=2)
    rows = job.source("words", source(place.input, max_files=1, cleanSource="delete"))
    slow = rows.select(F.udf(held, "string")("word").alias("word"))
    for name, query in (("fast", rows.select("word")), ("slow", slow)):
        job.query(name, query, sinks=[SQLiteSink(f"{name}-table", place.folder / "out.db", table=name)])
    handle = job.start(until="caught-up")
    wait_until_finished(handle, 7, query=0)
    assert (place.table("fast"), there()) == ([(name,) for name in names], names), "the slower query has nothing yet"
    shut.unlink()
    handle.wait()
    assert place.table("slow") == [(name,) for name in names]
    folder = place.checkpoints / "job"
    oldest = read_retained(Folder.of(folder), retained_numbers(Folder.of(folder))[0])
    assert oldest is not None
    positions = [parse_offsets(done.offsets) for done in oldest.queries]
    reached = min(position_of(found.positions[0] or "").logOffset for found in positions if found is not None)
    assert there() == names[reached + 1 :], "those behind the oldest retained checkpoint are gone, and no others"
    assert 0 <= reached < 7


def test_a_savepoint_knows_what_was_read_and_no_more(place: Place):
    for number in range(3):
        write(place.input, f"{number}.json", f"{number}")
    job = words_job(place)
    run(job)
    handle = words_job(place).start()
    path = handle.stop_with_savepoint(place.folder / "saved", id="one")
    write(place.input, "3.json", "3")
    moved = place.input.rename(place.folder / "moved")
    other = Place(place.folder / "other", place.spark, moved) if (place.folder / "other").mkdir() is None else place
    restored = words_job(other, moved)
    restored.start(until="caught-up", savepoint=path).wait()
    run(words_job(other, moved))
    assert words(other) == ["3"], "the savepoint is self-contained"


def test_a_list_that_is_gone_is_an_error_and_no_second_reading(place: Place):
    gate = Gate(place)
    write(place.input, "0.json", "sea")
    run(gated_job(place, gate))
    next((place.query() / "spark" / "sources" / "0").glob("0-*")).unlink()
    assert error_of(lambda: run(gated_job(place, gate))).code == "TG-RECORD-CORRUPT"
    assert words(place) == ["sea"]


def test_a_table_with_a_log_of_its_own_is_no_folder_of_files(place: Place):
    job = place.job()
    error = error_of(lambda: job.source("table", FileSource(str(place.input), format="rate")))
    assert (error.code, "SparkSource" in error.next_step) == ("TG-SOURCE-REFUSED", True)


def test_the_same_name_with_a_fault_in_between(place: Place):
    """An epoch that was cut off twice has the same files both times, whatever came meanwhile."""
    gate = Gate(place)
    write(place.input, "5.json", "sea")
    cut_off(place, gate)
    write(place.input, "4.json", "sand", at=1_600_000_000)
    cut_off(place, gate)
    assert len(place.log("spark/offsets")) == 1
    run(gated_job(place, gate))
    assert words(place) == ["sand", "sea"]
