"""Jobs whose queries are joined by channels: which rows each query reads, in which order, and what is refused."""

from __future__ import annotations

import json
import re

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run
from tests.support.command import tidegate
from tests.support.today import turn
from tidegate import EmbeddedChannel, FileSink, Job, SQLiteSink
from tidegate.channels.channel import Channel
from tidegate.core.errors import Code


def chain(place: Place, **settings: object) -> Job:
    """One query writes a channel, two queries read it: one of them all rows, one of them those of long words."""
    job = place.job("job", **settings)
    words = job.channel("words")
    job.query("write", place.words(job, "lines"), sinks=[words])
    read = job.source("words-in", words)
    job.query("all", read, sinks=[FileSink("out", place.folder / "out", format="json")])
    long = read.where(F.length("word") > 3)
    job.query("long", long, sinks=[FileSink("long-out", place.folder / "long", format="json")])
    return job


def words_of(place: Place, name: str = "out") -> list[str]:
    return sorted(word for words in place.words_out(name).values() for word in words)


def test_each_reader_has_every_row_once_over_several_starts(place: Place) -> None:
    place.write("sea", "stone")
    run(chain(place))
    assert (words_of(place), words_of(place, "long")) == (["sea", "stone"], ["stone"])
    place.write("sand")
    place.write("wind", "ice")
    run(chain(place))
    assert words_of(place) == ["ice", "sand", "sea", "stone", "wind"]
    assert words_of(place, "long") == ["sand", "stone", "wind"]


def test_two_channels_meet_in_one_query(place: Place) -> None:
    place.write("sea", "stone")
    job = place.job()
    short, long = job.channel("short"), job.channel("long")
    rows = place.words(job, "lines")
    job.query("short-words", rows.where(F.length("word") <= 3), sinks=[short])
    job.query("long-words", rows.where(F.length("word") > 3), sinks=[long])
    both = job.source("short-in", short).unionByName(job.source("long-in", long))
    counted = both.groupBy(F.length("word").alias("letters")).count()
    job.query(
        "count",
        counted,
        mode="update",
        sinks=[SQLiteSink("table", place.folder / "out.db", table="words", key="letters")],
    )
    run(job)
    assert place.table() == [(3, 1), (5, 1)]


ACCOUNTS = [f"account-{number}" for number in range(12)]


def keyed_chain(place: Place, partitions: int) -> Job:
    """Two keyed channels one behind the other, without a shuffle between them."""
    job = place.job("job")
    orders, checked = (job.channel(uid, EmbeddedChannel("account", partitions)) for uid in ("orders", "checked"))
    job.query("order", place.source(job, "lines", "account string, number long"), sinks=[orders])
    rows = job.source("orders-in", orders).where("number >= 0")
    job.query("check", rows, sinks=[checked])
    read = job.source("checked-in", checked)
    job.query("all", read, sinks=[FileSink("out", place.folder / "out", format="json")])
    return job


def numbers_of(place: Place, account: str) -> list[int]:
    """The numbers of an account, as they came out. In an epoch one task has them all."""
    found: list[int] = []
    for epoch in sorted(place.files()):
        tasks = sorted((place.folder / "out").glob(f"*-e{epoch:012d}-*.json"))
        rows = [[json.loads(line) for line in task.read_text().splitlines()] for task in tasks]
        numbers = [some for task in rows if (some := [row["number"] for row in task if row["account"] == account])]
        assert len(numbers) <= 1
        found += [number for some in numbers for number in some]
    return found


@turn(0, of=2)
def test_rows_of_one_key_come_in_their_order_through_a_keyed_channel(place: Place) -> None:
    """A bounded reader reads all epochs of its writer at once, with as many tasks as there are cores. Then the number
    of partitions is changed.
    """
    rows = [{"account": ACCOUNTS[number * 7 % 12], "number": number} for number in range(240)]
    for first in range(0, 120, 20):
        place.write(*rows[first : first + 20])
    run(keyed_chain(place, 8))
    assert len(place.files()) == 1
    assert len(list((place.folder / "out").glob("*.json"))) > 1
    for first in range(120, 240, 20):
        place.write(*rows[first : first + 20])
    run(keyed_chain(place, 3))
    for account in ACCOUNTS:
        assert numbers_of(place, account) == [row["number"] for row in rows if row["account"] == account]


def test_commands_name_a_channel_and_count_its_rows(place: Place) -> None:
    place.write("sea", "stone")
    run(chain(place))
    shown = tidegate("info", "job", "--dir", str(place.checkpoints)).stdout
    folder = place.checkpoints / "job" / "channels" / "words"
    assert re.search(rf"words-in +channel +channel {folder}\n", shown)
    assert not re.search(r"took part.*\n[─ ]+\n(\n|$)", shown), "no table without rows, if the queries had ended"
    done = tidegate("check", "--json", "--job", "job", "--dir", str(place.checkpoints))
    found = {each["what"]: (each["health"], each["detail"]) for each in json.loads(done.stdout)}
    assert found["source words-in"] == found["sink write/words"]
    assert found["source words-in"] == ("OK", f"channel {folder}: 1 epochs with 2 rows are kept")


def test_a_key_that_the_rows_do_not_have_is_refused_before_the_start(place: Place) -> None:
    job = place.job("job")
    words = job.channel("words", EmbeddedChannel("account"))
    job.query("write", place.words(job, "lines"), sinks=[words])
    assert error_of(lambda: run(job)).catalogue_entry is Code.KEY_COLUMN


@turn(0, of=2)
def test_a_fresh_generation_reads_no_row_of_the_older_one(place: Place) -> None:
    place.write("sea")
    run(chain(place))
    handle = chain(place).start(until="caught-up", fresh="once")
    handle.wait()
    assert words_of(place) == ["sea", "sea"]
    place.write("sand")
    run(chain(place))
    assert words_of(place) == ["sand", "sea", "sea"]


def test_a_channel_is_read_behind_the_query_that_writes_it(place: Place) -> None:
    job = place.job()
    error = error_of(lambda: job.source("in", job.channel("words")))
    assert error.catalogue_entry is Code.CHANNEL_UNWRITTEN


def test_a_channel_has_one_writer(place: Place) -> None:
    job = place.job()
    words = job.channel("words")
    rows = place.words(job, "lines")
    job.query("one", rows, sinks=[words])
    assert error_of(lambda: job.query("another", rows, sinks=[words])).catalogue_entry is Code.UID_DUPLICATE


def test_epochs_of_a_job_with_channels_do_not_overlap_and_a_start_that_wants_it_says_so(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.write("sea")
    run(chain(place, checkpointing_max_concurrent=2))
    assert "checkpointing.max_concurrent is 1 and not 2: the job has channels" in caplog.text


def test_a_job_whose_channel_no_query_reads_says_so_too(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.write("sea")
    run(writer(place, checkpointing_max_concurrent=2))
    assert "checkpointing.max_concurrent is 1 and not 2: the job has channels" in caplog.text


def test_an_at_most_once_job_has_no_channels(place: Place) -> None:
    job = place.job(checkpointing_mode="at-most-once")
    error = error_of(lambda: job.query("write", place.words(job, "lines"), sinks=[job.channel("words")]))
    assert error.catalogue_entry is Code.LEVEL_REFUSED


def test_a_query_does_not_go_on_in_another_channel_under_the_uid_of_its_source(place: Place) -> None:
    def job_that_reads(number: int) -> Job:
        job = place.job()
        rows = place.words(job, "lines")
        channels = [job.channel("short"), job.channel("long")]
        job.query("short-words", rows.where(F.length("word") <= 3), sinks=[channels[0]])
        job.query("long-words", rows.where(F.length("word") > 3), sinks=[channels[1]])
        read = job.source("in", channels[number])
        job.query("read", read, sinks=[FileSink("out", place.folder / "out", format="json")])
        return job

    place.write("sea", "stone", "sand")
    run(job_that_reads(0))
    assert error_of(lambda: run(job_that_reads(1))).catalogue_entry is Code.SOURCES_CHANGED


def writer(place: Place, *more: str, query: str = "write", **settings: int) -> Job:
    job = place.job("job", **settings)
    words = job.channel("words")
    rows = place.words(job, "lines")
    job.query(query, rows.select("word", *(F.lit(1).alias(each) for each in more)), sinks=[words])
    return job


def with_reader(place: Place, job: Job) -> Job:
    words = next(sink for query in job._queries for sink in query.sinks)  # pyright: ignore[reportPrivateUsage]
    assert isinstance(words, Channel)
    job.query("read", job.source("in", words), sinks=[FileSink("out", place.folder / "out", format="json")])
    return job


def test_a_reader_that_is_added_later_reads_what_is_there(place: Place) -> None:
    place.write("sea")
    run(writer(place))
    run(with_reader(place, writer(place)))
    assert words_of(place) == ["sea"]


def test_rows_without_a_new_column_of_the_writer_are_an_error_and_are_read_without_it(place: Place) -> None:
    place.write("sea")
    run(writer(place))
    assert error_of(lambda: run(with_reader(place, writer(place, "number")))).catalogue_entry is Code.SOURCES_CHANGED
    run(with_reader(place, writer(place)))
    assert words_of(place) == ["sea"]


def test_a_renamed_writer_is_refused_before_it_publishes(place: Place) -> None:
    place.write("sea")
    run(writer(place))
    assert error_of(lambda: run(writer(place, query="renamed"))).catalogue_entry is Code.CHANNEL_TAKEN
    run(with_reader(place, writer(place)))
    assert words_of(place) == ["sea"]


def test_a_bounded_job_that_is_stopped_before_its_readers_start_loses_no_row(place: Place) -> None:
    for number in range(4):
        place.write(f"word-{number}")
    handle = chain(place).start(until="caught-up")
    handle.stop()
    run(chain(place))
    assert words_of(place) == [f"word-{number}" for number in range(4)]


def test_values_of_every_type_pass_a_channel_unchanged(place: Place) -> None:
    place.write("sea")
    place.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        job = place.job()
        values = job.channel("values")
        made = place.words(job, "lines").selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(_VALUES)))
        job.query("write", made, sinks=[values])
        read = job.source("in", values)
        shown = read.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS word")
        job.query("read", shown, sinks=[FileSink("out", place.folder / "out", format="json")])
        run(job)
        given = place.spark.range(1).selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(_VALUES)))
        [wanted] = given.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS word").collect()
        assert words_of(place) == [wanted["word"]]
        assert read.schema.simpleString() == given.schema.simpleString()
    finally:
        place.spark.conf.unset("spark.sql.session.timeZone")


_VALUES = (
    "CAST(1 AS BYTE)",
    "CAST(2 AS SHORT)",
    "3",
    "4L",
    "CAST(0.5 AS FLOAT)",
    "0.25D",
    "CAST('12.340' AS DECIMAL(20, 3))",
    "true",
    "'text'",
    "CAST('bytes' AS BINARY)",
    "DATE '2026-11-26'",
    "TIMESTAMP '2026-03-08 01:59:59.123456'",
    "TIMESTAMP_NTZ '2026-03-08 02:30:00.5'",
    "array(1, null, 3)",
    "map('a', 1, 'b', null)",
    "named_struct('x', 1, 'y', array(named_struct('z', 'deep')))",
    "CAST(null AS STRING)",
)
