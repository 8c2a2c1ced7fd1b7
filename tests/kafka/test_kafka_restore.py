"""A job from Kafka to Kafka goes on from a savepoint: its offsets, and what its older generation has left open."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.integration.conftest import spark  # noqa: F401  # pyright: ignore[reportUnusedImport] (a fixture)
from tests.integration.place import Place, error_of, wait_until_finished
from tests.kafka.seen import open_transactions, visible_now
from tests.kafka.test_kafka_sink import plan_of, prepared
from tidegate import Job, KafkaSink, KafkaSource, Restore
from tidegate.core.records import JobRecord, SinkIdentity, decode
from tidegate.testing.contract import SCHEMA, attempt_of, rows_from
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import TopicRecord, make_topic, produce


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:  # noqa: F811 (the fixture)
    return Place(tmp_path, spark)


@pytest.mark.more
def test_going_back_repeats_what_is_visible_and_aborts_what_the_old_generation_left_open(place: Place, broker: Broker):
    lines, more, target = (make_topic(broker.servers) for _ in range(3))

    def write(topic: str, *values: str) -> None:
        produce(broker.servers, topic, [TopicRecord(value.encode(), partition=0) for value in values])

    def sink() -> KafkaSink:
        return KafkaSink("topic", broker.servers, topic=target, transactional_id_prefix=target, transaction_timeout=60)

    def job(*topics: str) -> Job:
        wanted = place.job()
        sources = [wanted.source(each, KafkaSource(broker.servers, topics=[each])) for each in topics]
        rows = sources[0] if len(sources) == 1 else sources[0].union(sources[1])
        wanted.query("query", rows.selectExpr("cast(value as string) as line"), sinks=[sink()])
        return wanted

    def seen() -> Counter[str]:
        return Counter(json.loads(row.value or b"")["line"] for row in visible_now(broker.servers, target))

    write(lines, "sea")
    handle = job(lines).start()
    wait_until_finished(handle, 0)
    path = handle.savepoint(place.folder / "saved")
    handle.stop()
    write(lines, "sand")
    job(lines).start(until="caught-up").wait()
    assert seen() == {"sea": 1, "sand": 1}

    record = decode(JobRecord, (place.checkpoints / "job/job.json").read_bytes(), "job.json")
    identity = SinkIdentity(job="job", job_id=record.job_id, generation=1, query="query", sink="topic")
    orphan = sink()
    orphan.open(plan_of(SCHEMA))
    prepared(orphan, replace(attempt_of(run=7, epoch=2), sink=identity), rows_from(0, 1), finished=1)
    assert open_transactions(broker.servers, target)

    write(more, "wind")
    error = error_of(lambda: job(more, lines).start(until="caught-up", savepoint=path).wait())
    assert (error.code, error.found) == (
        "TG-SINK-AHEAD",
        "epoch 1 of generation 1 is visible: rows of epoch 1 would come again",
    )
    job(more, lines).start(until="caught-up", savepoint=Restore(str(path), rewind="back")).wait()
    assert seen() == {"sea": 1, "sand": 2, "wind": 1}
    assert open_transactions(broker.servers, target) == []


@pytest.mark.more
def test_a_sink_that_was_renamed_or_dropped_at_a_restore_keeps_no_reader_waiting(place: Place, broker: Broker):
    """An attempt that was killed before *prepared* is in no record: only its name says whose it is."""
    lines, kept, given_up = (make_topic(broker.servers) for _ in range(3))
    prefix = f"waits-{kept}"
    produce(broker.servers, lines, [TopicRecord(b"sea", partition=0)])

    def sink(uid: str, topic: str) -> KafkaSink:
        return KafkaSink(uid, broker.servers, topic=topic, transactional_id_prefix=prefix, transaction_timeout=300)

    def job(*sinks: KafkaSink, **more: KafkaSink) -> Job:
        wanted = place.job()
        rows = wanted.source("lines", KafkaSource(broker.servers, topics=[lines]))
        text = rows.selectExpr("cast(value as string) as line")
        for uid, written in {"query": list(sinks), **{uid: [each] for uid, each in more.items()}}.items():
            wanted.query(uid, text, sinks=written)
        return wanted

    handle = job(sink("topic", kept), sink("other", given_up), left=sink("third", given_up)).start()
    for query in range(2):
        wait_until_finished(handle, 0, query)
    path = handle.savepoint(place.folder / "saved")
    handle.stop()
    record = decode(JobRecord, (place.checkpoints / "job/job.json").read_bytes(), "job.json")

    def left_open(query: str, written: KafkaSink, job_id: str = record.job_id) -> str:
        identity = SinkIdentity(job="job", job_id=job_id, generation=1, query=query, sink=written.uid)
        written.open(plan_of(SCHEMA))
        attempt = replace(attempt_of(run=7, epoch=2), sink=identity)
        committable = prepared(written, attempt, rows_from(0, 1), finished=1)
        return committable.handle["transactional_id"]

    for query, written in (("query", sink("topic", kept)), ("query", sink("other", given_up))):
        left_open(query, written)
    left_open("left", sink("third", given_up))
    foreign = [left_open("query", sink("topic", kept), "another"), left_open("query", sink("topic2", kept))]
    assert len(open_transactions(broker.servers, prefix)) == 5

    wish = Restore(str(path), renamed={"topic": "renamed"}, allow_non_restored_state=True)
    job(sink("renamed", kept)).start(until="caught-up", savepoint=wish).wait()
    assert open_transactions(broker.servers, prefix) == sorted(foreign), "of another job, and of a sink it never had"
