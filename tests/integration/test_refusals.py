"""Bad input: refused with a stable code before anything is written, and the same job starts once it is mended."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource

from tests.integration.place import Place, error_of, evaluate, run
from tests.support.small_disk import SmallDisk
from tests.support.today import turn
from tidegate import FileSink, FileSource, Job, PrintSink, SparkSource, SQLiteSink, TidegateError, TwoPhaseSink
from tidegate.core.records import JobRecord, Start, decode, encode
from tidegate.spark.sources.source import StreamLoader
from tidegate.testing.memory import MemorySink

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def table_sink(place: Place, uid: str = "table", **options: object) -> SQLiteSink:
    given = {"path": place.folder / "out.db", "table": "words", **options}
    return SQLiteSink(uid, **given)  # pyright: ignore[reportArgumentType]


def job_of(place: Place, *sinks: TwoPhaseSink, mode: str = "append") -> Job:
    """Words as they come (append), or counted."""
    job = place.job()
    rows = place.words(job)
    counted = rows if mode == "append" else rows.groupBy("word").count()
    job.query("query", counted, mode=mode, sinks=sinks)  # pyright: ignore[reportArgumentType]
    return job


def everything_below(folder: Path) -> list[str]:
    """All files but the input and the lock files, which hold nothing."""
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    return sorted(name for name in names if not name.startswith("in/") and "/locks/" not in name)


# --- the program -------------------------------------------------------------------------------------------

DECLARATIONS: dict[str, tuple[str, Callable[[Place], object]]] = {
    "an unknown setting": ("TG-SETTING-UNKNOWN", lambda place: place.job(checkpointing_intervall="1s")),
    "a setting that does not fit": ("TG-SETTING-VALUE", lambda place: place.job(checkpointing_interval="soon")),
    "a job name that is no file name": ("TG-UID-INVALID", lambda place: place.job("a/b")),
    "a uid that is no file name": ("TG-UID-INVALID", lambda place: place.words(place.job(), "../lines")),
    "an empty uid": ("TG-UID-INVALID", lambda place: job_of(place, MemorySink(""))),
    "two sources of one uid": ("TG-UID-DUPLICATE", lambda place: [place.words(job) for job in [place.job()] * 2]),
    "two sinks of one uid": ("TG-UID-DUPLICATE", lambda place: job_of(place, MemorySink("a"), MemorySink("a"))),
    "a sink with the uid of a source": ("TG-UID-DUPLICATE", lambda place: job_of(place, MemorySink("words"))),
    "a sink with the uid of its query": ("TG-UID-DUPLICATE", lambda place: job_of(place, MemorySink("query"))),
    "an unknown output mode": ("TG-OUTPUT-MODE", lambda place: job_of(place, MemorySink("a"), mode="upsert")),
    "a query without a sink": ("TG-JOB-EMPTY", lambda place: job_of(place)),
    "a job without a query": ("TG-JOB-EMPTY", lambda place: place.job().start()),
    "an unknown end": ("TG-OPTION-UNKNOWN", lambda place: place.job().start(until="drained")),  # pyright: ignore[reportArgumentType]
    "an unknown delivery": ("TG-OPTION-UNKNOWN", lambda place: table_sink(place, delivery="maybe-once")),
    "an unknown file format": ("TG-OPTION-UNKNOWN", lambda place: FileSink("a", place.folder, format="xml")),
    "a source that forgets": (
        "TG-SOURCE-NOT-REPLAYABLE",
        lambda place: place.job().source("chat", SparkSource("socket", host="localhost", port=9)),
    ),
    "a replayable source that is said to forget": (
        "TG-SOURCE-NOT-REPLAYABLE",
        lambda place: place.job().source("rate", SparkSource("rate", replayable=False)),
    ),
    "a DataFrame of a source that forgets": (
        "TG-SOURCE-NOT-REPLAYABLE",
        lambda place: place.job().source("chat", socket_stream(place.spark)),
    ),
    "a DataFrame that is not streaming": (
        "TG-QUERY-NOT-STREAMING",
        lambda place: place.job().query("query", place.spark.range(3), sinks=[MemorySink("a")]),
    ),
    "a source that is not streaming": (
        "TG-QUERY-NOT-STREAMING",
        lambda place: place.job().source("numbers", place.spark.range(3)),
    ),
    "a source of two streams": (
        "TG-QUERY-NOT-STREAMING",
        lambda place: place.job().source("two", rate(place.spark).union(rate(place.spark))),
    ),
    "a stream that is no source of the job": (
        "TG-SOURCE-UNKNOWN",
        lambda place: place.job().query("query", rate(place.spark), sinks=[MemorySink("a")]),
    ),
    "a stream of another job": (
        "TG-SOURCE-UNKNOWN",
        lambda place: place.job().query("query", place.words(place.job("other")), sinks=[MemorySink("a")]),
    ),
    "a source and a stream that is none": (
        "TG-SOURCE-UNKNOWN",
        lambda place: half_known(place.job(), place),
    ),
}


def rate(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


def socket_stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("socket").option("host", "localhost").option("port", 9).load()


def half_known(job: Job, place: Place) -> None:
    known = job.source("rate", rate(place.spark))
    job.query("query", known.union(rate(place.spark)), sinks=[MemorySink("a")])


@pytest.mark.parametrize(
    ("code", "declare"), DECLARATIONS.values(), ids=[name.replace(" ", "-") for name in DECLARATIONS]
)
def test_a_declaration_that_cannot_be_is_refused(place: Place, code: str, declare: Callable[[Place], object]):
    error = error_of(lambda: declare(place))
    assert error.code == code
    assert all([error.expected, error.found, error.where, error.next_step])
    assert everything_below(place.folder) == []


class Chat(DataSource):
    """A source of the user's own; its name begins like that of a format that Spark reads again."""

    @classmethod
    def name(cls) -> str:
        return "text-chat"

    def schema(self) -> str:
        return "word string"


KAFKA_TYPO: dict[str, Any] = {"kafka.bootstrap.server": "localhost:9"}


@pytest.mark.parametrize(
    ("source", "meant"),
    [
        (SparkSource("kafka", subscrbie="t"), "subscribe"),
        (SparkSource("kafka", subscribe="t", **KAFKA_TYPO), "kafka.bootstrap.servers"),
        (SparkSource("rate", rowsPerSec=5), "rowsPerSecond"),
        (FileSource("/tmp", format="json", schema="n int", maxFilePerTrigger=1), "maxFilesPerTrigger"),
        (FileSource("/tmp", format="csv", schema="n int", haeder=True), "header"),
    ],
)
def test_an_option_of_sparks_own_with_a_typo_is_named_with_what_was_meant(
    place: Place, source: StreamLoader, meant: str
):
    with pytest.raises(TidegateError) as caught:
        place.job().source("in", source)
    assert caught.value.code == "TG-OPTION-UNKNOWN"
    assert caught.value.where == "job job, source in"
    assert caught.value.next_step == f"did you mean {meant}?"


def test_an_option_that_may_be_for_what_lies_behind_a_source_is_let_through(place: Place):
    options: dict[str, Any] = {"fs.s3a.access.key": "mine", "multiLine": True, "MAXFILESPERTRIGGER": 1}
    place.job().source("in", FileSource(str(place.input), format="json", schema="n int", **options))


def test_an_invalid_name_of_a_job_is_told_as_that(place: Place):
    with pytest.raises(TidegateError) as caught:
        place.job("word count")
    assert "the name of the job" in caught.value.expected
    assert caught.value.where == "Job('word count', ...)"


def test_only_the_whole_name_of_a_format_vouches_for_it(place: Place):
    session = place.spark.newSession()
    session.dataSource.register(Chat)
    chat = session.readStream.format("text-chat").load()
    assert error_of(lambda: Job("job", spark=session).source("chat", chat)).code == "TG-SOURCE-NOT-REPLAYABLE"


def test_a_refused_query_leaves_its_uids_free(place: Place):
    job = place.job()
    words = place.words(job)
    error_of(lambda: job.query("query", words, sinks=[]))
    error_of(lambda: job.query("query", place.spark.range(3), sinks=[MemorySink("memory")]))
    job.query("query", words, sinks=[MemorySink("memory")])


# --- what the start finds ----------------------------------------------------------------------------------

STARTS: dict[str, tuple[str, Callable[[Place], Job]]] = {
    "a key that is no column": ("TG-KEY-COLUMN", lambda place: job_of(place, table_sink(place, key=["wrod"]))),
    "a select of what is not there": (
        "TG-SCHEMA-MISMATCH",
        lambda place: job_of(place, table_sink(place, select=["wrod"])),
    ),
    "a where over what is not there": (
        "TG-SCHEMA-MISMATCH",
        lambda place: job_of(place, table_sink(place, where=F.col("wrod") == "sea")),
    ),
    "a where that is no condition": (
        "TG-SCHEMA-MISMATCH",
        lambda place: job_of(place, table_sink(place, where=F.length("word"))),
    ),
    "two columns of one name": (
        "TG-SCHEMA-MISMATCH",
        lambda place: job_of(place, table_sink(place, select=["word", F.lit(1).alias("Word")])),
    ),
    "complete mode into a table without key": (
        "TG-OUTPUT-MODE",
        lambda place: job_of(place, table_sink(place), mode="complete"),
    ),
    "complete mode into files": (
        "TG-OUTPUT-MODE",
        lambda place: job_of(place, FileSink("files", place.folder / "out"), mode="complete"),
    ),
    "complete mode without an aggregation": ("TG-OUTPUT-MODE", lambda place: rows_in_mode(place, "complete")),
    "append mode with an aggregation that never ends": (
        "TG-OUTPUT-MODE",
        lambda place: append_counts(place),
    ),
    "a sink below a file": (
        "TG-SINK-UNUSABLE",
        lambda place: job_of(place, FileSink("files", a_file(place) / "out")),
    ),
    "a table below a file": (
        "TG-SINK-UNUSABLE",
        lambda place: job_of(place, table_sink(place, path=a_file(place) / "out.db")),
    ),
}


def a_file(place: Place) -> Path:
    path = place.input / ".file"
    path.touch()
    return path


def rows_in_mode(place: Place, mode: str) -> Job:
    job = place.job()
    job.query("query", place.words(job), mode=mode, sinks=[table_sink(place, key="word")])  # pyright: ignore[reportArgumentType]
    return job


def append_counts(place: Place) -> Job:
    job = place.job()
    job.query("query", place.words(job).groupBy("word").count(), sinks=[table_sink(place)])
    return job


@pytest.mark.parametrize(("code", "make"), STARTS.values(), ids=[name.replace(" ", "-") for name in STARTS])
def test_a_start_that_cannot_be_is_refused_and_writes_nothing(place: Place, code: str, make: Callable[[Place], Job]):
    job = make(place)
    error = error_of(job.start)
    assert error.code == code
    assert "query" in error.where or "sink" in error.where
    assert everything_below(place.folder) == []
    assert error_of(job.start).code == code  # and not that the job is being driven


def test_all_violations_are_listed_in_one_error(place: Place):
    sinks = [table_sink(place, key="wrod"), FileSink("files", a_file(place) / "out"), table_sink(place, "b", key="x")]
    error = error_of(job_of(place, *sinks).start)
    assert error.code == "TG-START-REFUSED"
    assert [each.code for each in error.violations] == ["TG-KEY-COLUMN", "TG-SINK-UNUSABLE", "TG-KEY-COLUMN"]
    assert everything_below(place.folder) == []


def test_a_table_that_does_not_fit_is_left_as_it_is(place: Place):
    place.write("sea")
    with closing(sqlite3.connect(place.folder / "out.db")) as database:
        database.execute("CREATE TABLE words (word TEXT, other TEXT)")
    before = (place.folder / "out.db").read_bytes()
    error = error_of(job_of(place, table_sink(place)).start)
    assert (error.code, "other" in error.found) == ("TG-SCHEMA-MISMATCH", True)
    assert (place.folder / "out.db").read_bytes() == before
    assert everything_below(place.folder) == ["out.db"]

    with closing(sqlite3.connect(place.folder / "out.db")) as database:
        database.execute("ALTER TABLE words DROP COLUMN other")
    run(job_of(place, table_sink(place)))
    assert place.table() == [("sea",)]


def test_checkpoints_and_sinks_on_this_disk_need_tasks_on_this_machine(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.spark.start_checks.is_local", lambda _: False)
    error = error_of(job_of(place, table_sink(place), FileSink("files", place.folder / "out")).start)
    assert [each.code for each in error.violations] == ["TG-STORAGE-UNSHARED", *["TG-SINK-LOCAL-ONLY"] * 2]
    assert everything_below(place.folder) == []


def test_files_on_this_disk_need_tasks_on_this_machine(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.spark.sources.files.is_local", lambda _: False)
    error = error_of(lambda: place.job().source("words", FileSource(str(place.folder), format="text")))
    assert (error.code, "the tasks read files" in error.expected) == ("TG-SOURCE-LOCAL-ONLY", True)


def test_a_standby_needs_a_local_master(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.spark.start_checks.is_local", lambda _: False)
    job = place.job(restart_standby="true")
    rows = place.words(job)
    job.query("query", rows, sinks=[PrintSink("shown")])
    error = error_of(job.start)
    assert error.code == "TG-START-REFUSED", "the checkpoints are on a local disk as well"
    text = str(error)
    assert [each in text for each in ("TG-STORAGE-UNSHARED", "TG-SETTINGS-CLASH", "restart.standby")] == [True] * 3
    assert "spark.master = local" in text
    assert everything_below(place.folder) == []


# --- the session -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "value"), [(PROVIDER_KEY, HDFS), (FORMAT_KEY, "1")], ids=["hashmap", "format-1"])
def test_a_session_with_another_state_store_is_refused(place: Place, key: str, value: str):
    session = place.spark.newSession()
    session.conf.set(key, value)
    error = error_of(lambda: Job("job", spark=session))
    assert (error.code, error.found) == ("TG-STATE-FORMAT", value)
    assert key in error.expected
    assert session.conf.get(key) == value


def test_a_program_that_would_not_hear_spark_is_refused_before_its_first_epoch_waits_for_ever(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    gateway: Any = place.spark.sparkContext._gateway
    place.job()
    calls = gateway._callback_server
    deaf = socket.socket(fileno=fcntl.fcntl(calls.server_socket, fcntl.F_DUPFD_CLOEXEC, 2000))
    with closing(deaf), monkeypatch.context() as patched:
        patched.setattr(calls, "server_socket", deaf)
        error = error_of(lambda: Job("job", spark=place.spark))
    assert (error.code, "2000" in error.found) == ("TG-TOO-MANY-FILES", True)
    assert everything_below(place.folder) == []
    run(job_of(place, table_sink(place)))


OPENS_A_THOUSAND_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [open("/dev/null") for _ in range(1100)]
"""


@pytest.mark.more
def test_a_program_with_a_thousand_open_files_is_refused_and_does_not_hang():
    said = python(OPENS_A_THOUSAND_FILES + ASKS_FOR_SPARK, PATH=os.environ["PATH"])
    assert said.startswith("TG-TOO-MANY-FILES | file number 11"), said


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_an_environment_for_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str):
    monkeypatch.setenv(variable, "sc://localhost")
    error = error_of(lambda: Job("job").spark)
    assert (error.code, variable in error.found) == ("TG-SPARK-CONNECT", True)


def test_a_session_of_spark_connect_is_refused():
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    error = error_of(lambda: Job("job", spark=remote()))  # pyright: ignore[reportArgumentType]
    assert (error.code, error.found) == ("TG-SPARK-CONNECT", "a session of pyspark.sql.connect.session")


def python(program: str, **environment: str) -> str:
    """What a program prints in a process of its own, with this environment besides what Python needs."""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": os.environ.get("HOME", "/"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return result.stdout + result.stderr


ASKS_FOR_SPARK = """
from tidegate import Job, TidegateError
try:
    Job("job").spark
except TidegateError as error:
    print(error.code, "|", error.found)
"""


def test_without_java_the_error_says_so(tmp_path: Path):
    assert python(ASKS_FOR_SPARK, PATH=str(tmp_path)).startswith("TG-JAVA-MISSING | no `java`")


def test_a_java_that_is_too_old_is_named(tmp_path: Path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    printed = python(ASKS_FOR_SPARK, PATH=os.environ["PATH"], JAVA_HOME=str(tmp_path))
    assert printed.startswith(f"TG-JAVA-MISSING | {java}: openjdk version")


def test_a_java_whose_version_stands_beside_it_is_not_started_to_be_asked(tmp_path: Path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    java.chmod(0o755)
    (tmp_path / "release").write_text('IMPLEMENTOR="somebody"\nJAVA_VERSION="11.0.2"\n')
    printed = python(ASKS_FOR_SPARK, PATH=os.environ["PATH"], JAVA_HOME=str(tmp_path))
    assert printed.startswith(f"TG-JAVA-MISSING | {java}: version 11")
    assert not (tmp_path / "started").exists()


# --- the checkpoint folder ---------------------------------------------------------------------------------


def test_a_checkpoint_folder_below_a_file_is_refused(place: Place):
    (place.folder / "checkpoints").touch()
    error = error_of(job_of(place, table_sink(place)).start)
    assert (error.code, "a file stands" in error.next_step) == ("TG-STORAGE-UNUSABLE", True)
    assert everything_below(place.folder) == ["checkpoints"]


@pytest.fixture
def disk(place: Place) -> Iterator[SmallDisk]:
    with SmallDisk(place.checkpoints, megabytes=2) as disk:
        yield disk


def test_a_read_only_checkpoint_folder_is_refused(place: Place, disk: SmallDisk):
    place.write("sea")
    disk.read_only(on=True)
    error = error_of(job_of(place, table_sink(place)).start)
    assert (error.code, "mount the file system" in error.next_step) == ("TG-STORAGE-UNUSABLE", True)
    assert everything_below(place.folder) == []
    disk.read_only(on=False)
    run(job_of(place, table_sink(place)))
    assert place.table() == [("sea",)]


def test_a_full_disk_stops_the_start_and_then_the_epoch_and_loses_nothing(place: Place, disk: SmallDisk):
    place.write("sea")
    disk.fill()
    error = error_of(job_of(place, table_sink(place)).start)
    assert (error.code, "make space" in error.next_step) == ("TG-STORAGE-FULL", True)
    assert not (place.folder / "out.db").exists()

    disk.empty()
    run(job_of(place, table_sink(place)))
    handle = job_of(place, table_sink(place)).start()
    disk.fill()
    place.write("sand")
    error = error_of(lambda: handle.wait(60))  # Spark's own log, or ours: whichever needed space first
    assert error.code in ("TG-STORAGE-FULL", "TG-EPOCH-FAILED", "TG-QUERY-FAILED")

    disk.empty()
    run(job_of(place, table_sink(place)))
    assert place.table() == [("sand",), ("sea",)]
    assert place.log("ledger/done") == place.log("spark/commits") == [0, 1]


def ran_once(place: Place) -> Path:
    """A job of two sources and two sinks that has done an epoch; its query's ledger."""
    place.write("sea")
    run(two_by_two(place))
    return place.query() / "ledger"


def two_by_two(place: Place, *, sources: str = "ab", sinks: str = "xy") -> Job:
    job = place.job()
    first, second = (place.words(job, f"source-{letter}") for letter in sources)
    outputs = [FileSink(f"sink-{letter}", place.folder / letter, format="json") for letter in sinks]
    job.query("query", first.union(second), sinks=outputs)
    return job


def files_and_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_checkpoint_with_other_sources_or_sinks_or_another_order_is_refused(place: Place):
    ledger = ran_once(place)
    for sources, sinks, what in [
        ("ba", "xy", "sources"),
        ("ac", "xy", "sources"),
        ("ab", "yx", "sinks"),
        ("ab", "x", "sinks"),
    ]:
        error = error_of(lambda: run(two_by_two(place, sources=sources, sinks=sinks)))  # noqa: B023 (called here)
        assert (error.code, error.expected.startswith(what)) == ("TG-SOURCES-CHANGED", True)
    place.write("sand")
    run(two_by_two(place))
    assert place.words_out("x") == place.words_out("y") == {0: ["sea", "sea"], 1: ["sand", "sand"]}
    assert sorted(path.name for path in (ledger / "done").iterdir()) == ["0", "1"]


def test_the_checkpoint_of_another_job_is_refused(place: Place):
    ran_once(place)
    shutil.copytree(place.checkpoints / "job", place.checkpoints / "copy")
    before = files_and_bytes(place.checkpoints / "copy" / "queries")
    job = place.job("copy")
    job.query("query", place.words(job), sinks=[MemorySink("memory")])
    error = error_of(job.start)
    assert (error.code, error.found) == ("TG-JOB-MISMATCH", "that of job job")
    assert files_and_bytes(place.checkpoints / "copy" / "queries") == before


def test_a_ledger_from_another_checkpoint_folder_is_refused(place: Place):
    ledger = ran_once(place)
    start = decode(Start, (ledger / "start").read_bytes(), "start")
    (ledger / "start").write_bytes(encode(msgspec.structs.replace(start, job_id="ffffffff")))
    error = error_of(lambda: run(two_by_two(place)))
    assert (error.code, "ffffffff" in error.found) == ("TG-JOB-MISMATCH", True)


@turn(0, of=2)
@pytest.mark.parametrize("name", ["job.json", "start", "decided/0", "finished_through"])
def test_a_record_of_a_newer_release_is_refused_and_kept(place: Place, name: str):
    ledger = ran_once(place)
    path = place.checkpoints / "job" / "job.json" if name == "job.json" else ledger / name
    whole = path.read_bytes()
    kind = whole.split(b" ")[1]
    path.write_bytes(whole.replace(b"tidegate " + kind + b" 1 ", b"tidegate " + kind + b" 2 ", 1))
    newer = path.read_bytes()
    for _ in range(2):
        error = error_of(lambda: run(two_by_two(place)))
        assert (error.code, name in error.where) == ("TG-RECORD-NEWER", True)
    assert path.read_bytes() == newer
    path.write_bytes(whole)
    run(two_by_two(place))


def test_a_torn_record_is_refused_and_never_guessed(place: Place):
    ledger = ran_once(place)
    path = ledger / "decided" / "0"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    error = error_of(lambda: run(two_by_two(place)))
    assert (error.code, "decided/0" in error.where) == ("TG-RECORD-CORRUPT", True)


def test_a_checkpoint_folder_that_was_deleted_is_noticed_by_the_sink(place: Place):
    ran_once(place)
    shutil.rmtree(place.checkpoints)
    error = error_of(lambda: run(two_by_two(place)))
    assert (error.code, "sink-x" in error.where) == ("TG-SINK-OF-ANOTHER-JOB", True)
    assert place.words_out("x") == {0: ["sea", "sea"]}


def test_an_older_copy_of_the_checkpoint_folder_is_noticed_by_the_sink(place: Place):
    ran_once(place)
    shutil.copytree(place.checkpoints, place.folder / "older")
    place.write("sand")
    run(two_by_two(place))
    shutil.rmtree(place.checkpoints)
    shutil.move(place.folder / "older", place.checkpoints)
    error = error_of(lambda: run(two_by_two(place)))
    assert (error.code, "epoch 1" in error.found) == ("TG-SINK-AHEAD", True)
    assert place.words_out("x") == {0: ["sea", "sea"], 1: ["sand", "sand"]}


@pytest.mark.parametrize(
    ("provider", "version", "found"),
    [(HDFS, "1", HDFS), (ROCKSDB, "1", "checkpoint format 1")],
    ids=["hashmap", "rocksdb-format-1"],
)
def test_state_of_another_store_or_format_is_refused(place: Place, provider: str, version: str, found: str):
    """A checkpoint that Spark made by itself, put where the job's would be."""
    place.write("sea")
    session = place.spark.newSession()
    session.conf.set(PROVIDER_KEY, provider)
    session.conf.set(FORMAT_KEY, version)
    frame = session.readStream.schema("word string").json(str(place.input)).groupBy("word").count()
    writer = frame.writeStream.outputMode("update").option("checkpointLocation", str(place.query() / "spark"))
    writer.foreachBatch(evaluate).trigger(availableNow=True).start().awaitTermination(60)
    before = everything_below(place.folder)
    error = error_of(job_of(place, table_sink(place, key="word"), mode="update").start)
    assert (error.code, found in error.found) == ("TG-STATE-FORMAT", True)
    assert everything_below(place.folder) == before


def test_a_job_record_is_only_read_by_its_own_name(place: Place):
    """What `job.json` holds stays for the life of the folder."""
    ran_once(place)
    path = place.checkpoints / "job" / "job.json"
    before = decode(JobRecord, path.read_bytes(), "job.json")
    run(two_by_two(place))
    assert decode(JobRecord, path.read_bytes(), "job.json") == before


def test_print_and_table_do_not_stand_against_each_other(place: Place, capsys: pytest.CaptureFixture[str]):
    """A sink that remembers nothing is no reason to refuse the second start."""
    place.write("sea")
    for _ in range(2):
        run(job_of(place, PrintSink("console"), table_sink(place)))
    assert capsys.readouterr().out.count("sea") == 1
    assert place.table() == [("sea",)]
