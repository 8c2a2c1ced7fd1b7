"""Files that move, go, change, or are older than others: each row is read once, or the job says which file it lacks."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, wait_until_finished
from tests.support.today import turn
from tidegate import FileSink, FileSource, Job, SQLiteSink

SCHEMA = "word string"


def write(folder: Path, name: str, *words: str, at: float | None = None) -> Path:
    """A file of rows (word) that appears whole; `at`: its time in seconds, else one that no other file has."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(json.dumps({"word": word}) + "\n" for word in words))
    seconds = 1_700_000_000 + sum(1 for _ in folder.rglob("*")) if at is None else at
    os.utime(hidden, (seconds, seconds))
    return hidden.rename(path)


def source(folder: Path, **options: Any) -> FileSource:
    given: dict[str, Any] = {"schema": SCHEMA, **options}
    return FileSource(str(folder), format="json", **given)


def words_job(place: Place, folder: Path | None = None, **options: Any) -> Job:
    """The words of a folder into a table, by default one file an epoch."""
    job = place.job()
    given: dict[str, Any] = {"max_files": 1, **options}
    words = job.source("words", source(folder or place.input, **given))
    job.query("query", words.select("word"), sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    return job


def words(place: Place) -> list[str]:
    return [row[0] for row in place.table()]


class Gate:
    """Lets an epoch begin, and its tasks fail while it is shut: Spark has written down where it ends by then."""

    def __init__(self, place: Place) -> None:
        self.path = place.folder / "shut"

    def shut(self) -> None:
        self.path.touch()

    def open(self) -> None:
        self.path.unlink()

    def through(self, rows: DataFrame) -> DataFrame:
        path = str(self.path)

        def passed(word: str) -> str:
            if os.path.exists(path):
                raise RuntimeError("the gate is shut")
            return word

        return rows.select(F.udf(passed, "string")("word").alias("word"))


def gated_job(place: Place, gate: Gate, folder: Path | None = None, **options: Any) -> Job:
    job = place.job()
    rows = job.source("words", source(folder or place.input, **options))
    sink = SQLiteSink("table", place.folder / "out.db", table="words")
    job.query("query", gate.through(rows), sinks=[sink])
    return job


def cut_off(place: Place, gate: Gate, **options: Any) -> None:
    """An epoch whose files are written down, and that was never done."""
    gate.shut()
    assert error_of(lambda: run(gated_job(place, gate, **options))).code == "TG-EPOCH-FAILED"
    gate.open()


# --- what Spark's own source gets wrong --------------------------------------------------------------------


def test_a_folder_that_was_moved_between_two_starts_is_gone_on_with(place: Place):
    write(place.input, "0.json", "sea")
    run(words_job(place))
    moved = place.input.rename(place.folder / "elsewhere")
    write(moved, "1.json", "sand")
    run(words_job(place, moved))
    assert words(place) == ["sand", "sea"]


@turn(1, of=3)
def test_two_folders_that_were_moved_are_gone_on_with_in_a_union_with_windows(place: Place):
    def job(first: Path, second: Path) -> Job:
        made = place.job()
        schema = "at timestamp, word string"
        left = made.source("left", source(first, schema=schema))
        right = made.source("right", source(second, schema=schema))
        rows = left.union(right).withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds")).count()
        counts = rows.select(F.date_format("window.start", "HH:mm:ss").alias("start"), "count")
        made.query(
            "query",
            counts,
            mode="update",
            sinks=[SQLiteSink("table", place.folder / "out.db", table="words", key=["start"])],
        )
        return made

    def event(folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / name).write_text('{"at": "2024-01-01T00:00:01Z", "word": "sea"}\n')

    folders = place.folder / "a", place.folder / "b"
    for folder in folders:
        event(folder, "0.json")
    run(job(*folders))
    assert place.table() == [("00:00:00", 2)]
    moved = [folder.rename(folder.with_name(f"{folder.name}-moved")) for folder in folders]
    event(moved[0], "1.json")
    run(job(moved[0], moved[1]))
    assert place.table() == [("00:00:00", 3)]


def test_a_file_that_vanished_before_its_epoch_came_again_is_named_and_counts_when_it_is_back(place: Place):
    gate = Gate(place)
    file = write(place.input, "0.json", "sea")
    write(place.input, "1.json", "sand")
    cut_off(place, gate)
    aside = file.rename(place.folder / "aside")
    error = error_of(lambda: run(gated_job(place, gate)))
    assert (error.code, "0.json" in error.expected, "words" in error.where) == ("TG-FILE-LOST", True, True)
    aside.rename(file)
    run(gated_job(place, gate))
    assert words(place) == ["sand", "sea"]


def test_a_lost_file_is_skipped_where_the_program_says_so(place: Place, caplog: pytest.LogCaptureFixture):
    gate = Gate(place)
    file = write(place.input, "0.json", "sea")
    write(place.input, "1.json", "sand")
    cut_off(place, gate)
    file.unlink()
    run(gated_job(place, gate, lost="skip"))
    assert words(place) == ["sand"]
    assert any("0.json is gone" in record.getMessage() for record in caplog.records)


def test_an_epoch_that_has_lost_all_its_files_is_skipped_with_all_columns(place: Place):
    gate = Gate(place)
    file = write(place.input, "0.json", "sea")
    cut_off(place, gate)
    file.unlink()
    write(place.input, "1.json", "sand")
    run(gated_job(place, gate, lost="skip"))
    assert words(place) == ["sand"]


@turn(1, of=3)
@pytest.mark.parametrize("change", ["longer", "later", "other bytes"])
def test_a_file_that_changed_before_its_epoch_came_again_is_refused_by_name(place: Place, change: str):
    gate = Gate(place)
    file = write(place.input, "0.json", "sea")
    cut_off(place, gate)
    before, status = file.read_bytes(), file.stat()
    file.write_bytes(
        before * 2 if change == "longer" else before.replace(b"sea", b"fog") if "other" in change else before
    )
    later = 1 if change == "later" else 0
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + later))
    error = error_of(lambda: run(gated_job(place, gate)))
    assert (error.code, "0.json" in error.found) == ("TG-FILE-CHANGED", True)
    file.write_bytes(before)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    run(gated_job(place, gate))
    assert words(place) == ["sea"]


def test_a_file_far_older_than_the_newest_one_is_read(place: Place):
    day = 24 * 3600.0
    write(place.input, "new.json", "sea", at=1_700_000_000)
    run(words_job(place))
    write(place.input, "old.json", "sand", at=1_700_000_000 - 30 * day)
    write(place.input, "ahead.json", "fog", at=1_900_000_000)
    run(words_job(place, settle="100ms"))
    write(place.input, "older.json", "wind", at=1_700_000_000 - 60 * day)
    run(words_job(place))
    assert words(place) == ["fog", "sand", "sea", "wind"]


# --- what changes while it is read -------------------------------------------------------------------------


def test_a_file_that_changes_while_its_epoch_runs_fails_the_epoch(place: Place):
    file = write(place.input, "0.json", "sea")
    job = place.job()
    rows = job.source("words", source(place.input))
    path = str(file)

    def appended(word: str) -> str:
        with open(path, "a") as there:
            there.write('{"word": "more"}\n')
        return word

    changed = rows.select(F.udf(appended, "string")("word").alias("word"))
    job.query("query", changed, sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    error = error_of(lambda: run(job))
    assert (error.code, "0.json" in error.found) == ("TG-FILE-CHANGED", True)
    assert not (place.folder / "out.db").exists() or words(place) == []


@turn(0, of=2)
def test_a_changed_file_that_was_read_is_ignored_refused_or_read_again(place: Place, caplog: pytest.LogCaptureFixture):
    write(place.input, "0.json", "sea")
    run(words_job(place))
    write(place.input, "0.json", "fog", at=1_700_009_000)
    run(words_job(place))
    assert words(place) == ["sea"]
    assert any("0.json changed" in record.getMessage() for record in caplog.records)
    error = error_of(lambda: run(words_job(place, changed="refuse")))
    assert (error.code, "0.json" in error.found) == ("TG-FILE-CHANGED", True)
    run(words_job(place, changed="reread"))
    assert words(place) == ["fog", "sea"]
    run(words_job(place, changed="refuse"))
    assert words(place) == ["fog", "sea"], "it is known as it is now"


# --- what is read ------------------------------------------------------------------------------------------


def test_partitions_metadata_patterns_and_hidden_names(place: Place):
    write(place.input, "day=1/a.json", "sea")
    write(place.input, "day=2/b.json", "sand")
    write(place.input, "day=2/c.txt", "not of the pattern")
    write(place.input, "day=2/_d.json", "not visible")
    write(place.input, "_e/f.json", "not visible")
    job = place.job()
    rows = job.source("words", source(place.input, schema="word string, day int", pattern="*.json"))
    named = rows.select("word", "day", F.col("_metadata.file_name").alias("file"))
    job.query("query", named, sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    run(job)
    assert place.table() == [("sand", 2, "b.json"), ("sea", 1, "a.json")]


def test_folders_below_are_read_where_that_is_wanted(place: Place):
    write(place.input, "a.json", "sea")
    write(place.input, "below/further/b.json", "sand")
    run(words_job(place, recursive=True))
    assert words(place) == ["sand", "sea"]


def test_a_pattern_in_the_path_fits_folders_and_files(place: Place):
    for name in ("x1/a.json", "x2/b.json", "y/c.json", "x2/d.txt"):
        write(place.input, name, name)
    run(words_job(place, place.input / "{x?,z}" / "*.json"))
    write(place.input, "x3/e.json", "x3/e.json")
    run(words_job(place, place.input / "{x?,z}" / "*.json"))
    assert words(place) == ["x1/a.json", "x2/b.json", "x3/e.json"]


def test_a_schema_is_inferred_once_and_kept(place: Place):
    def job() -> Job:
        made = place.job()
        rows = made.source("words", source(place.input, schema=None))
        made.query("query", rows, sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
        return made

    error = error_of(job)
    assert (error.code, "schema" in error.next_step) == ("TG-SOURCE-REFUSED", True)
    write(place.input, "0.json", "sea")
    run(job())
    (place.input / "0.json").unlink()
    (place.input / "1.json").write_text('{"word": "sand", "later": 1}\n')
    run(job())
    assert words(place) == ["sand", "sea"]


def test_the_oldest_file_comes_first_and_of_equal_times_the_first_name(place: Place):
    for name, at in (("c", 3.0), ("b", 1.0), ("a", 2.0), ("d", 1.0)):
        write(place.input, f"{name}.json", name, at=1_600_000_000 + at)
    job = place.job()
    rows = job.source("words", source(place.input, max_files=1))
    job.query("query", rows, sinks=[FileSink("files", place.folder / "out", format="json")])
    run(job)
    assert place.words_out() == {0: ["b"], 1: ["d"], 2: ["a"], 3: ["c"]}


def test_a_file_that_is_still_written_is_waited_for(place: Place):
    growing = place.input / "0.json"
    growing.write_text('{"word": "sea"}\n')
    handle = words_job(place, settle="3s").start()
    for word in ("sand", "fog"):
        time.sleep(0.3)
        with growing.open("a") as file:
            file.write(json.dumps({"word": word}) + "\n")
    wait_until_finished(handle, 0)
    handle.stop()
    assert words(place) == ["fog", "sand", "sea"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"maxFileAge": "1d"}, "no maxFileAge="),
        ({"latestFirst": True}, "no latestFirst="),
        ({"options": {"fileNameOnly": "true"}}, "no fileNameOnly="),
        ({"ignoreMissingFiles": True}, "no ignoreMissingFiles="),
        ({"max_files": 1, "maxFilesPerTrigger": 2}, "max_files= or maxFilesPerTrigger="),
        ({"cleanSource": "archive"}, "sourceArchiveDir= with cleanSource=archive"),
        ({"after_done": "remove"}, "after_done= one of"),
        ({"settle": "soon"}, "settle= a duration"),
        ({"basePath": "/x"}, "basePath= beside a path with a pattern alone"),
        ({"options": {"multiLine": True}, "multiLine": False}, "multiLine= once"),
    ],
)
def test_an_option_that_the_source_does_not_have_is_refused_by_name(
    place: Place, options: dict[str, Any], expected: str
):
    error = error_of(lambda: words_job(place, **options))
    assert (error.code, error.expected.startswith(expected)) == ("TG-SOURCE-OPTION", True)


def test_options_of_the_format_are_spark_s_own(place: Place):
    (place.input / "0.csv").write_text("word;n\nsea;1\n")
    job = place.job()
    csv = FileSource(
        str(place.input), format="csv", schema="word string, n int", options={"header": True}, sep=";", max_files=1
    )
    job.query("query", job.source("words", csv), sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    run(job)
    assert place.table() == [("sea", 1)]


def test_a_copy_of_a_folder_with_other_times_is_not_read_again(place: Place):
    write(place.input, "0.json", "sea")
    run(words_job(place))
    copied = place.folder / "copied"
    shutil.copytree(place.input, copied, copy_function=shutil.copyfile)
    write(copied, "1.json", "sand")
    run(words_job(place, copied))
    assert words(place) == ["sand", "sea"]


@pytest.mark.parametrize("path", ["ftp://localhost/in", "unknown://somewhere/in"])
def test_a_folder_of_a_file_system_without_a_storage_is_refused_by_name(place: Place, path: str):
    error = error_of(lambda: place.job().source("words", FileSource(path, format="json", schema=SCHEMA)))
    assert (error.code, error.found, "SparkSource" in error.next_step) == ("TG-SOURCE-REFUSED", path, True)


@pytest.mark.parametrize(
    ("path", "after_done", "found"),
    [("s3://bucket/in", "delete", "delete"), ("hdfs://localhost:1/in", "archive:/done", "/done")],
)
def test_files_of_a_storage_go_only_by_a_rename_in_it(place: Place, path: str, after_done: str, found: str):
    source = FileSource(path, format="json", schema=SCHEMA, after_done=after_done)
    error = error_of(lambda: place.job().source("words", source))
    assert (error.code, error.found) == ("TG-SOURCE-OPTION", found)


def test_a_source_on_s3_without_the_connector_says_which_jars_it_needs(place: Place):
    error = error_of(lambda: place.job().source("words", FileSource("s3://bucket/in", format="json", schema=SCHEMA)))
    assert (error.code, "hadoop-aws" in error.next_step) == ("TG-JARS-UNAVAILABLE", True)
