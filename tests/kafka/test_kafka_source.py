"""Topics of a real broker into a table: every committed row once, from where the source began, or a clear refusal."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyspark.sql import DataFrame, SparkSession

from tests.integration.conftest import spark  # noqa: F401  # pyright: ignore[reportUnusedImport] (a fixture)
from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.support.driver import Driver
from tests.support.logged import told
from tests.support.today import turn
from tidegate import FileSink, Job, KafkaSource, SQLiteSink, operate
from tidegate.core.errors import TidegateError
from tidegate.core.failpoints import parse_strikes
from tidegate.core.records import Start, decode
from tidegate.disk.strikes import STRIKES
from tidegate.kafka.clients import Clients
from tidegate.sources.kafka import reading as tasks
from tidegate.sources.kafka.offsets import Bounds, OffsetRange
from tidegate.sources.kafka.source import LostRecords, TopicReading
from tidegate.sources.kafka.topics import TopicSelection
from tidegate.sources.used_columns import UsedColumns
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import PARTITIONS, TopicRecord, delete_topic, make_topic, produce

PROGRAM = Path(__file__).with_name("source_program.py")


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:  # noqa: F811 (the fixture)
    return Place(tmp_path, spark)


@pytest.fixture
def topic(broker: Broker) -> str:
    return make_topic(broker.servers, PARTITIONS)


def values(count: int, first: int = 0) -> list[TopicRecord]:
    """Rows `0`, `1`, ..., spread over all partitions."""
    return [TopicRecord(str(number).encode(), partition=number % PARTITIONS) for number in range(first, first + count)]


def job_of(place: Place, source: KafkaSource, **settings: Any) -> Job:
    """A query from the source into the table `lines` (value, partition, offset)."""
    job = place.job(**settings)
    job.query("query", lines(job.source("lines", source)), sinks=[table_sink(place)])
    return job


def lines(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("cast(value as string) as value", "partition", "offset")


def table_sink(place: Place) -> SQLiteSink:
    return SQLiteSink("table", place.folder / "out.db", table="lines")


def read(place: Place) -> list[int]:
    """The values of the table, sorted as numbers."""
    return sorted(int(value) for value, *_ in place.table("lines"))


def positions(place: Place, epoch: int) -> dict[str, Any]:
    """What stands in the checkpoint as the end of an epoch."""
    return json.loads((place.query() / "spark/offsets" / str(epoch)).read_text().splitlines()[2])


def begun(place: Place) -> Bounds:
    """What *start* says of the source."""
    file = place.query() / "ledger/start"
    return Bounds.from_text(decode(Start, file.read_bytes(), str(file)).positions["lines"])


# --- rows --------------------------------------------------------------------------------------------------


def test_every_row_comes_once_and_the_checkpoint_says_where_each_epoch_ended(place: Place, broker: Broker, topic: str):
    produce(broker.servers, topic, values(500))
    source = KafkaSource(broker.servers, topics=[topic], max_rows=200)
    status = run(job_of(place, source))
    assert read(place) == list(range(500))
    assert status.queries[0].epochs == 3
    assert begun(place).start.next == {(topic, number): 0 for number in range(PARTITIONS)}
    last = positions(place, 2)
    assert [*last] == [topic, "topic ids"]
    assert last[topic] == {str(number): count for number, count in counts(500).items()}
    assert sum(positions(place, 0)[topic].values()) == 200

    produce(broker.servers, topic, values(100, first=500))
    run(job_of(place, source))
    assert read(place) == list(range(600))


def counts(rows: int) -> Counter[int]:
    return Counter(number % PARTITIONS for number in range(rows))


def test_columns_are_those_of_sparks_connector(place: Place, broker: Broker, topic: str):
    rows = [
        TopicRecord(b"v0", key=b"k", partition=3, headers=(("h", b"1"), ("h", None)), timestamp_ms=1_700_000_000_123),
        TopicRecord(None, key=b"tombstone", partition=3, timestamp_ms=1_700_000_000_124),
        TopicRecord(b"\xff\x00", partition=3, timestamp_ms=1_700_000_000_125),
    ]
    produce(broker.servers, topic, rows)
    job = place.job()
    found = job.source("lines", KafkaSource(broker.servers, topics=[topic], headers=True))
    assert found.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    shown = found.selectExpr(
        "cast(key as string) as key",
        "hex(value) as value",
        "topic",
        "partition",
        "offset",
        "unix_millis(timestamp) as at",
        "timestampType as kind",
        "transform(headers, h -> concat(h.key, '=', coalesce(cast(h.value as string), 'null'))) as headers",
    )
    job.query("query", shown, sinks=[FileSink("files", place.folder / "out", format="json")])
    run(job)
    (seen,) = place.files().values()  # a JSON line leaves out what is null
    assert sorted(seen, key=lambda row: row["offset"]) == [
        {**shared(topic, 0), "key": "k", "value": "7630", "headers": ["h=1", "h=null"]},
        {**shared(topic, 1), "key": "tombstone"},
        {**shared(topic, 2), "value": "FF00"},
    ]


def shared(topic: str, offset: int) -> dict[str, Any]:
    return {"topic": topic, "partition": 3, "offset": offset, "at": 1_700_000_000_123 + offset, "kind": 0}


@turn(0, of=2)
def test_of_transactions_only_committed_rows_come_and_gaps_hold_nothing_up(place: Place, broker: Broker, topic: str):
    with_transactions(broker.servers, topic, "first", [(range(40), "commit"), (range(40, 80), "abort")])
    source = KafkaSource(broker.servers, topics=[topic])
    begun_at = time.monotonic()
    run(job_of(place, source))
    assert read(place) == list(range(40))
    with_transactions(broker.servers, topic, "second", [(range(80, 120), "abort")])
    run(job_of(place, source))  # nothing but an aborted transaction and its marks
    assert read(place) == list(range(40))
    still_open = with_transactions(
        broker.servers, topic, "third", [(range(120, 160), "commit"), (range(160, 200), "leave")]
    )
    run(job_of(place, source))
    assert read(place) == [*range(40), *range(120, 160)]
    assert time.monotonic() - begun_at < 50, "no task waited for what never comes"
    still_open.abort_transaction(30)


def with_transactions(servers: str, topic: str, name: str, parts: list[tuple[range, str]]) -> Producer:
    """One transaction for each part, committed, aborted or left open."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-{name}"})
    producer.init_transactions(30)
    for numbers, end in parts:
        producer.begin_transaction()
        for number in numbers:
            producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
        producer.flush(30)
        if end != "leave":
            (producer.commit_transaction if end == "commit" else producer.abort_transaction)(30)
    return producer


@turn(0, of=3)
def test_a_limit_that_ends_between_the_marks_of_transactions_is_exact(place: Place, broker: Broker, topic: str):
    parts = [(range(start, start + 8), "abort" if start % 24 == 0 else "commit") for start in range(0, 240, 8)]
    with_transactions(broker.servers, topic, "many", parts)
    run(job_of(place, KafkaSource(broker.servers, topics=[topic], max_rows=37)))
    assert read(place) == [number for numbers, end in parts if end == "commit" for number in numbers]


@turn(1, of=2)
def test_the_rows_of_an_epoch_follow_from_how_long_the_last_one_took(place: Place, broker: Broker, topic: str):
    """The first epoch tells nothing. The second one takes six times as long as is wanted here, so the third one has
    less than a fifth of its rows.
    """

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(0.3)
        yield from batches

    produce(broker.servers, topic, values(5_500))
    job = place.job(checkpointing_backlog_interval="50ms")
    rows = lines(job.source("lines", KafkaSource(broker.servers, topics=[topic])))
    job.query("query", rows.mapInArrow(slowly, rows.schema), sinks=[table_sink(place)])
    run(job)
    assert read(place) == list(range(5_500))
    first, second, third = (sum(positions(place, epoch)[topic].values()) for epoch in (0, 1, 2))
    assert (first, second) == (2_500, 5_000)
    assert 0 < third - second < 500


@turn(2, of=3)
def test_a_join_and_two_queries_each_have_their_own_beginning(place: Place, broker: Broker, topic: str):
    """The plan above the source is the program's, whatever it is; a query that comes later begins by itself."""
    produce(broker.servers, topic, values(40))
    source = KafkaSource(broker.servers, topics=[topic], start="latest")

    def program(*, second: bool) -> Job:
        job = place.job()
        rows = lines(job.source("lines", source))
        evens = rows.where("cast(value as int) % 2 = 0").groupBy("value").count()
        job.query("query", rows, sinks=[table_sink(place)])
        if second:
            sink = SQLiteSink("counts-table", place.folder / "out.db", table="counts", key=["value"])
            job.query("counts", evens, mode="update", sinks=[sink])
        return job

    run(program(second=False))
    produce(broker.servers, topic, values(20, first=40))
    run(program(second=True))
    assert read(place) == list(range(40, 60))
    produce(broker.servers, topic, values(20, first=60))
    run(program(second=True))
    assert read(place) == list(range(40, 80))
    assert place.table("counts") == [(str(number), 1) for number in range(60, 80, 2)]


# --- where a source begins and ends ------------------------------------------------------------------------


@turn(1, of=4)
def test_latest_stays_where_it_was_although_the_first_epoch_is_killed(tmp_path: Path, broker: Broker, topic: str):
    produce(broker.servers, topic, values(30))
    hold, log = tmp_path / "hold", tmp_path / "log"
    arguments = (str(tmp_path), broker.servers, topic, "latest")
    with Driver(PROGRAM, *arguments, "for-ever", log=log, failpoints=f"prepared.before@0=hold:{hold}") as driver:
        started = tmp_path / "checkpoints/job/queries/query/g1/ledger/start"
        wait_until(started.exists, "start")
        produce(broker.servers, topic, values(30, first=30))
        driver.wait_for_hold(hold)
        driver.kill_all()
    produce(broker.servers, topic, values(30, first=60))
    with Driver(PROGRAM, *arguments, "caught-up", log=log) as driver:
        assert driver.wait() == 0, driver.tail()
    assert read(in_folder(tmp_path)) == list(range(30, 90))


def in_folder(folder: Path) -> Place:
    """A place without a session, to look at what a driver of its own has left."""
    return Place(folder, None, folder)  # pyright: ignore[reportArgumentType]


SIDES = [
    pytest.param(["prepared.after", "commit.after"], id="after records"),
    pytest.param(["task.prepared", "commits.seen.after"], id="before records"),
]


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("points", SIDES)
def test_kills_at_every_side_of_an_epoch_neither_lose_nor_repeat_a_row(
    tmp_path: Path, broker: Broker, topic: str, points: list[str]
):
    log = tmp_path / "log"
    total = 0
    for index, point in enumerate(points):
        produce(broker.servers, topic, values(3000, first=total))
        total += 3000
        hold = tmp_path / f"hold{index}"
        strike = f"{point}@{3 * index + 1}=hold:{hold}"
        with Driver(
            PROGRAM, *driver_arguments(tmp_path, broker, topic), "for-ever", log=log, failpoints=strike
        ) as driver:
            driver.wait_for_hold(hold)
            driver.kill_all()
    with Driver(PROGRAM, *driver_arguments(tmp_path, broker, topic), "caught-up", log=log) as driver:
        assert driver.wait() == 0, driver.tail()
    assert read(in_folder(tmp_path)) == list(range(total))


def driver_arguments(folder: Path, broker: Broker, topic: str) -> tuple[str, ...]:
    return str(folder), broker.servers, topic, "earliest"


def test_a_time_and_offsets_say_where_to_begin_and_end(place: Place, broker: Broker, topic: str):
    begin = 1_700_000_000_000
    rows = [TopicRecord(str(n).encode(), partition=n % PARTITIONS, timestamp_ms=begin + n * 1000) for n in range(80)]
    produce(broker.servers, topic, rows)
    since = datetime.fromtimestamp(begin / 1000 + 40, timezone.utc)
    stop = {topic: dict.fromkeys(range(PARTITIONS), 8)}
    run(job_of(place, KafkaSource(broker.servers, topics=[topic], start=since, stop=stop)))
    assert read(place) == list(range(40, 64))
    produce(broker.servers, topic, values(10, first=80))
    run(job_of(place, KafkaSource(broker.servers, topics=[topic], start="earliest")))
    assert read(place) == list(range(40, 64)), "start stands in the ledger, and so does stop"


def test_a_source_goes_on_where_a_consumer_group_stands(place: Place, broker: Broker, topic: str):
    """For a program that was a plain consumer before. A partition that the group never read comes whole."""
    produce(broker.servers, topic, values(80))
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": f"group-of-{topic}"})
    consumer.commit(offsets=[TopicPartition(topic, number, 5) for number in range(1, PARTITIONS)], asynchronous=False)
    consumer.close()
    run(job_of(place, KafkaSource(broker.servers, topics=[topic], start="group", group=f"group-of-{topic}")))
    assert read(place) == [number for number in range(80) if number % PARTITIONS == 0 or number >= 5 * PARTITIONS]


@turn(0, of=2)
def test_caught_up_is_where_the_topic_ended_at_the_start(place: Place, broker: Broker, topic: str):
    """A writer that never rests does not keep a bounded run alive."""
    produce(broker.servers, topic, values(50))
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 0})
    job = place.job()
    rows = job.source("lines", KafkaSource(broker.servers, topics=[topic], max_rows=10))
    job.query("query", lines(rows), sinks=[table_sink(place)])
    handle = job.start(until="caught-up")
    end = time.monotonic() + 60
    number = 50
    while not handle.wait(0.01):
        assert time.monotonic() < end, "the run goes on behind a writer that never rests"
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
        producer.poll(0)
        number += 1
    producer.flush(30)
    taken = len(read(place))
    assert 50 <= taken < number
    run(job_of(place, KafkaSource(broker.servers, topics=[topic])))
    assert read(place) == list(range(number))


@turn(1, of=2)
def test_partitions_added_later_are_read_from_their_first_record(place: Place, broker: Broker, topic: str):
    produce(broker.servers, topic, values(16))
    source = KafkaSource(broker.servers, pattern=f"{topic}.*")
    run(job_of(place, source))
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)])[topic].result(30)
    wait_until(lambda: len(partitions_of(broker, topic)) > PARTITIONS, "the new partition")
    produce(broker.servers, topic, [TopicRecord(b"16", partition=PARTITIONS), TopicRecord(b"17", partition=0)])
    run(job_of(place, source))
    assert read(place) == list(range(18))


def partitions_of(broker: Broker, topic: str) -> Any:
    return AdminClient({"bootstrap.servers": broker.servers}).list_topics(topic, timeout=10).topics[topic].partitions


def test_at_most_once_begins_at_the_latest(place: Place, broker: Broker, topic: str):
    produce(broker.servers, topic, values(10))

    def start() -> Any:
        job = place.job(checkpointing_mode="at-most-once")
        rows = lines(job.source("lines", KafkaSource(broker.servers, topics=[topic])))
        job.query("query", rows, sinks=[table_sink(place)])
        return job.start()

    for first in (10, 30):
        handle = start()
        produce(broker.servers, topic, values(10, first=first))
        wait_until(lambda first=first: len(read(place)) == first // 20 * 10 + 10, "ten rows more")
        handle.stop()
        produce(broker.servers, topic, values(10, first=first + 10))
    assert read(place) == [*range(10, 20), *range(30, 40)]
    job = place.job("other", checkpointing_mode="at-most-once")
    refused = error_of(lambda: job.source("lines", KafkaSource(broker.servers, topics=[topic], start="earliest")))
    assert refused.code == "TG-SOURCE-NOT-NEWEST"


# --- refusals ----------------------------------------------------------------------------------------------


def test_a_topic_made_anew_under_the_old_name_is_refused(place: Place, broker: Broker, topic: str):
    produce(broker.servers, topic, values(80))
    source = KafkaSource(broker.servers, topics=[topic])
    run(job_of(place, source))
    make_anew(broker, topic)
    produce(broker.servers, topic, values(800))  # longer than what was read
    error = error_of(lambda: run(job_of(place, source)))
    assert error.code == "TG-KAFKA-TOPIC-RECREATED"
    assert f"{topic}-0 10" in error.expected
    assert read(place) == list(range(80))
    assert place.log("spark/offsets") == [0]


def make_anew(broker: Broker, topic: str) -> None:
    delete_topic(broker.servers, topic)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone")
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])[topic].result(30)


def test_records_lost_to_retention_are_refused_with_their_number(place: Place, broker: Broker, topic: str):
    produce(broker.servers, topic, values(80))
    source = KafkaSource(broker.servers, topics=[topic])
    run(job_of(place, source))
    produce(broker.servers, topic, values(80, first=80))
    lose(broker, topic, 2, 15)
    error = error_of(lambda: run(job_of(place, source)))
    assert error.code == "TG-KAFKA-OFFSETS-LOST"
    assert error.expected == f"the records from {topic}-2 10 on"
    assert error.found == f"the oldest that are kept: {topic}-2 15; 5 offsets are gone"
    assert read(place) == list(range(80))


def lose(broker: Broker, topic: str, partition: int, before: int) -> None:
    """What retention does: the records of a partition below an offset go."""
    place = TopicPartition(topic, partition, before)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.delete_records([place])[place].result(30)


@turn(2, of=3)
def test_a_topic_that_is_deleted_while_it_is_read_ends_the_job(place: Place, broker: Broker, topic: str):
    produce(broker.servers, topic, values(8))
    handle = job_of(place, KafkaSource(broker.servers, topics=[topic])).start()
    wait_until_finished(handle, 0)
    delete_topic(broker.servers, topic)
    error = error_of(lambda: handle.wait(60))
    assert error.code in ("TG-KAFKA-TOPIC-MISSING", "TG-KAFKA-OFFSETS-LOST")
    assert topic in str(error)


@turn(0, of=2)
def test_what_cannot_be_read_is_refused_at_the_start(place: Place, broker: Broker, topic: str):
    def code(source: KafkaSource) -> str:
        return error_of(lambda: job_of(place, source).start()).code

    assert code(KafkaSource(broker.servers, topics=["no-such-topic"])) == "TG-KAFKA-TOPIC-MISSING"
    assert code(KafkaSource(broker.servers, partitions={topic: [0, 99]})) == "TG-KAFKA-TOPIC-MISSING"
    assert code(KafkaSource("localhost:1", topics=[topic])) == "TG-KAFKA-UNREACHABLE"
    assert code(KafkaSource(broker.servers, topics=[topic], options={"sasl.password": "env:NOT_SET"})) == (
        "TG-OPTION-UNREADABLE"
    )
    assert code(KafkaSource(broker.servers)) == "TG-SOURCE-OPTION"
    assert code(KafkaSource(broker.servers, topics=[topic], pattern="x")) == "TG-SOURCE-OPTION"
    assert code(KafkaSource(broker.servers, topics=[topic], start=datetime(2024, 1, 1))) == "TG-SOURCE-OPTION"  # noqa: DTZ001
    assert code(KafkaSource(broker.servers, topics=[topic], max_rows=0)) == "TG-SOURCE-OPTION"
    assert code(KafkaSource(broker.servers, topics=[topic], start="group")) == "TG-SOURCE-OPTION"
    unknown: Any = "ignore"
    assert code(KafkaSource(broker.servers, topics=[topic], lost=unknown)) == "TG-SOURCE-OPTION"
    assert not (place.query() / "ledger/start").exists()


def test_no_secret_stands_in_a_plan(place: Place, broker: Broker, topic: str):
    """Nor in a checkpoint: `test_kafka_login.py` looks through the files of a job that logs in."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "reader"}
    secret = KafkaSource(broker.servers, topics=[topic], options={**login, "sasl.password": "hush-hush"})
    rows = place.job("other").source("lines", secret)
    plan: Any = rows._jdf
    assert "hush-hush" not in plan.queryExecution().toString()


# --- what is lost is skipped -------------------------------------------------------------------------------


def all_but(lost: range, numbers: range) -> list[int]:
    """The values of `numbers` but for those at the offsets `lost` of partition 2."""
    return [each for each in numbers if each % PARTITIONS != 2 or each // PARTITIONS not in lost]


def skipped(place: Place, epoch: int) -> Any:
    """What the end of an epoch says it left out."""
    return positions(place, epoch).get("skipped records")


@turn(1, of=2)
def test_what_is_lost_is_skipped_and_counted_when_that_is_asked_for(
    place: Place, broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "tidegate")
    source = KafkaSource(broker.servers, topics=[topic], lost="skip")
    produce(broker.servers, topic, values(80))
    run(job_of(place, source))
    produce(broker.servers, topic, values(80, first=80))
    lose(broker, topic, 2, 15)
    run(job_of(place, source))
    kept = all_but(range(10, 15), range(160))
    assert read(place) == kept
    assert skipped(place, 1) == {topic: {"2": {"to": 15, "records": 5}}}
    assert "source job.query.lines: since the start 5 lost records were skipped" in caplog.text

    make_anew(broker, topic)
    produce(broker.servers, topic, values(16, first=160))
    run(job_of(place, source))
    assert read(place) == [*kept, *range(160, 176)]
    assert skipped(place, 2) == {topic: {str(number): {"to": 0, "records": None} for number in range(PARTITIONS)}}
    assert skipped(place, 3) is None
    produce(broker.servers, topic, values(16, first=176))
    run(job_of(place, source))
    assert read(place) == [*kept, *range(160, 192)]

    job = operate.open(place.folder / "checkpoints", "job")
    skips = [each for each in reversed(job.milestones()) if each.kind is operate.MilestoneKind.SKIP]
    unknown = ", ".join(f"partition {number} to 0 (an unknown number of records lost)" for number in range(PARTITIONS))
    assert [(each.query, each.source, each.epoch, each.text) for each in skips] == [
        ("query", "lines", 1, f"topic {topic}: partition 2 to 15 (5 records lost)"),
        ("query", "lines", 2, f"topic {topic}: {unknown}"),
    ]
    (reached,) = job.positions()
    each_at_eight = ", ".join(f"partition {number} at {32 // PARTITIONS}" for number in range(PARTITIONS))
    assert (reached.source, reached.lines) == ("lines", (f"topic {topic}: {each_at_eight}",))


def run_into_an_error(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until an epoch has been computed and is not prepared: only Spark's entry of it stays."""
    with monkeypatch.context() as patched:
        patched.setattr(STRIKES, "_strikes", parse_strikes("prepared.before=error"))
        assert error_of(lambda: run(job)).code in ("TG-QUERY-FAILED", "TG-EPOCH-FAILED")


@pytest.mark.more
def test_an_epoch_that_comes_again_skips_the_same_and_what_went_meanwhile(
    place: Place, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
):
    source = KafkaSource(broker.servers, topics=[topic], lost="skip")
    produce(broker.servers, topic, values(80))
    run(job_of(place, source))
    produce(broker.servers, topic, values(80, first=80))
    lose(broker, topic, 2, 15)
    run_into_an_error(job_of(place, source), monkeypatch)
    end = positions(place, 1)
    assert (place.log("ledger/decided"), len(read(place))) == ([0], 80)
    lose(broker, topic, 2, 18)
    produce(broker.servers, topic, values(80, first=160))
    run(job_of(place, source))
    assert positions(place, 1) == end
    assert read(place) == all_but(range(10, 18), range(240))
    assert skipped(place, 2) is None


@pytest.mark.more
def test_an_epoch_that_comes_again_reads_nothing_of_a_topic_made_anew_meanwhile(
    place: Place, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
):
    """Else its rows would come twice: in that epoch, and when the topic is read from its oldest record."""
    produce(broker.servers, topic, values(80))
    run(job_of(place, KafkaSource(broker.servers, topics=[topic])))
    produce(broker.servers, topic, values(80, first=80))
    run_into_an_error(job_of(place, KafkaSource(broker.servers, topics=[topic])), monkeypatch)
    make_anew(broker, topic)
    produce(broker.servers, topic, values(800, first=1000))
    refused = error_of(lambda: run(job_of(place, KafkaSource(broker.servers, topics=[topic]))))
    assert refused.code == "TG-KAFKA-TOPIC-RECREATED"
    assert read(place) == list(range(80))
    run(job_of(place, KafkaSource(broker.servers, topics=[topic], lost="skip")))
    assert read(place) == [*range(80), *range(1000, 1800)]


def offsets_read(broker: Broker, wanted: OffsetRange, lost: LostRecords) -> list[int]:
    """The offsets that a task gives for a range."""
    reading = TopicReading(
        clients=Clients(broker.servers), selection=TopicSelection((wanted.topic,)), where="job j, source s", lost=lost
    )
    schema = pa.schema([("offset", pa.int64())])
    return [int(row["offset"]) for batch in tasks.read(reading, wanted, schema) for row in batch.to_pylist()]


def test_a_task_goes_on_behind_what_went_before_it_came(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "tidegate")
    monkeypatch.setattr(tasks, "_PATIENCE_SECONDS", 1.0)
    produce(broker.servers, topic, [TopicRecord(str(number).encode(), partition=2) for number in range(20)])
    lose(broker, topic, 2, 15)
    found = {
        (start, end): offsets_read(broker, OffsetRange(topic, 2, start, end), LostRecords.SKIP)
        for start, end in [(10, 18), (10, 14), (18, 25), (30, 40)]
    }
    assert found == {(10, 18): [15, 16, 17], (10, 14): [], (18, 25): [18, 19], (30, 40): []}
    ours = "job j, source s: "  # a sink of an earlier test may still look after its transactions
    assert [each.removeprefix(ours) for each in told(caplog) if each.startswith(ours)] == [
        f"from {topic}-2 10 the epoch continues at 15: 5 records are lost",
        f"from {topic}-2 10 the epoch continues at 14: 4 records are lost",
        f"from {topic}-2 20 the epoch continues at 25: 5 records are lost",
        f"from {topic}-2 30 the epoch continues at 40: 10 records are lost",
    ]
    for start, end, code in ((10, 18, "TG-KAFKA-OFFSETS-LOST"), (18, 25, "TG-KAFKA-UNREACHABLE")):
        with pytest.raises(TidegateError) as refused:
            offsets_read(broker, OffsetRange(topic, 2, start, end), LostRecords.REFUSE)
        assert refused.value.code == code


def test_a_column_that_is_not_used_is_null(broker: Broker, topic: str):
    produce(broker.servers, topic, [TopicRecord(b"v", key=b"k", partition=0, headers=(("h", b"1"),))])
    fields = [("key", pa.binary()), ("value", pa.binary()), ("offset", pa.int64()), ("headers", pa.list_(pa.string()))]
    schema = pa.schema(fields)
    reading = TopicReading(
        clients=Clients(broker.servers),
        selection=TopicSelection((topic,)),
        where="job j, source s",
        columns=UsedColumns(frozenset({"value"})),
    )
    (batch,) = tasks.read(reading, OffsetRange(topic, 0, 0, 1), schema)
    assert batch.schema == schema
    assert batch.to_pylist() == [{**dict.fromkeys(schema.names), "value": b"v"}]


# --- beside the rows ---------------------------------------------------------------------------------------


def test_lag_tools_see_what_is_done(place: Place, broker: Broker, topic: str):
    produce(broker.servers, topic, values(80))
    run(job_of(place, KafkaSource(broker.servers, topics=[topic])))
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "tidegate.job.query.lines"})
    committed = consumer.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=30)
    consumer.close()
    assert [each.offset for each in committed] == [10] * PARTITIONS


def test_a_running_job_says_how_many_records_are_not_done(place: Place, broker: Broker, topic: str):
    """Its first epoch takes eight of them, and the next one may not begin yet."""
    produce(broker.servers, topic, values(80))
    source = KafkaSource(broker.servers, topics=[topic], max_rows=8)
    handle = job_of(place, source, checkpointing_min_pause="1h").start()
    wait_until(lambda: handle.status().queries[0].behind == 72, "what is not done")
    handle.stop()


def test_spark_keeps_no_process_to_find_positions(place: Place, broker: Broker, topic: str):
    """Each one imports everything anew at a start, holds a hundred megabytes, and may die."""
    produce(broker.servers, topic, values(80))
    handle = job_of(place, KafkaSource(broker.servers, topics=[topic])).start()
    wait_until_finished(handle, 0)
    kept = python_processes_of(place)
    handle.stop()
    assert {
        each for each in kept if "tidegate.spark.worker_daemon" not in each and "pyspark.worker" not in each
    } == set()


def python_processes_of(place: Place) -> set[str]:
    """The commands of the Python processes that this session's JVM has started."""
    jvm: Any = place.spark.sparkContext._jvm
    own = jvm.java.lang.ProcessHandle.current().pid()
    found: set[str] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if parent == own and "python" in command:
                found.add(command)
    return found
