"""Channels over Kafka: what other consumers see, which topics and values are refused, and what a driver that was paused
can do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tests.integration.conftest import spark  # noqa: F401  # pyright: ignore[reportUnusedImport] (a fixture)
from tests.integration.place import Place, error_of, run, wait_until
from tests.support.command import tidegate
from tests.support.today import sampled, turn
from tidegate import FileSink, Job, KafkaChannel, TidegateError
from tidegate.channels import kafka as module
from tidegate.channels.topic_claim import TopicClaim
from tidegate.core.errors import Code
from tidegate.core.records import SinkIdentity
from tidegate.kafka.clients import Clients
from tidegate.kafka.wire import Wire
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import TopicRecord, create_topic, delete_topic, make_topic, produce, read_all

HOUR_MS = 3_600_000


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:  # noqa: F811 (the fixture)
    return Place(tmp_path, spark)


def over(broker: Broker, partitions: int = 3, config: Mapping[str, str] | None = None) -> KafkaChannel:
    return KafkaChannel(broker.servers, make_topic(broker.servers, partitions, config=config), key="word")


def chain(place: Place, channel: KafkaChannel, name: str = "job", **columns: Column) -> Job:
    """One query writes a channel, another one reads it."""
    job = place.job(name)
    words = job.channel("words", channel)
    job.query("write", place.words(job, "lines").withColumns(columns), sinks=[words])
    job.query("all", job.source("words-in", words), sinks=[FileSink("out", place.folder / name, format="json")])
    return job


def words_of(place: Place, name: str = "job") -> list[str]:
    return sorted(word for words in place.words_out(name).values() for word in words)


@turn(0, of=2)
def test_other_consumers_see_ordinary_records_and_readers_only_those_of_the_job(place: Place, broker: Broker) -> None:
    """There was a record in the topic before the job began."""
    channel = over(broker)
    produce(broker.servers, channel.topic, [TopicRecord(b"older", partition=0)])
    place.write("sea", "stone")
    run(chain(place, channel, number=F.lit(1.5)))
    seen = read_all(broker.servers, channel.topic)
    records = [json.loads(each.value or b"") for each in seen if each.value != b"older"]
    assert sorted(records, key=str) == [{"word": "sea", "number": 1.5}, {"word": "stone", "number": 1.5}]
    assert {each.key for each in seen} == {None, b"sea", b"stone"}
    assert words_of(place) == ["sea", "stone"]


def test_commands_name_a_channel_and_look_at_its_topic(place: Place, broker: Broker) -> None:
    channel = over(broker)
    place.write("sea", "stone")
    run(chain(place, channel))
    shown = tidegate("info", "job", "--dir", str(place.checkpoints)).stdout
    told = f"channel over Kafka {broker.servers}, topics {channel.topic}"
    assert re.search(rf"words-in +kafka-channel +{told}\n", shown)
    found = checked(place)
    assert found["source words-in"]["health"] == found["sink write/words"]["health"] == "OK"
    assert f"topics {channel.topic}: 3 partitions with" in found["source words-in"]["detail"]
    change_topic(broker, channel.topic, "retention.ms", "1000")
    assert checked(place)["sink write/words"]["health"] == "FAILED"
    assert "retention.ms=1000" in checked(place)["sink write/words"]["detail"]


def checked(place: Place) -> dict[str, dict[str, str]]:
    """What `tidegate check` says of each thing."""
    done = tidegate("check", "--json", "--job", "job", "--dir", str(place.checkpoints))
    return {each["what"]: each for each in json.loads(done.stdout)}


def change_topic(broker: Broker, topic: str, setting: str, value: str) -> None:
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)],
    )
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(10)


def test_a_record_that_is_no_row_of_the_channel_is_refused_with_a_step_that_a_channel_has(
    place: Place, broker: Broker
) -> None:
    channel = over(broker)
    place.write("sea")
    run(chain(place, channel))
    produce(broker.servers, channel.topic, [TopicRecord(b"not of the job", partition=0)])
    place.write("sand")
    error = error_of(lambda: run(chain(place, channel)))
    assert error.catalogue_entry is Code.ROW_UNPARSED
    assert f"{channel.topic}-0, offset" in error.where
    assert "value=" not in error.expected
    assert "unparsed=" not in error.next_step
    assert "start the program as it was" in error.next_step


def test_a_partition_that_is_added_later_is_read_from_its_begin(place: Place, broker: Broker) -> None:
    """A producer that is used again learns of new partitions at its next look."""
    channel = replace(over(broker, partitions=1), options={"topic.metadata.refresh.interval.ms": 100})
    place.write("sea")
    run(chain(place, channel))
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.create_partitions([NewPartitions(channel.topic, 4)])[channel.topic].result(10)
    topics = partial(admin.list_topics, channel.topic)
    wait_until(lambda: len(topics().topics[channel.topic].partitions) == 4, "the broker knows the new partitions")
    words = [f"word-{number}" for number in range(40)]
    place.write(*words)
    run(chain(place, channel))
    assert {each.partition for each in read_all(broker.servers, channel.topic)} == {0, 1, 2, 3}
    assert words_of(place) == sorted(["sea", *words])


def test_a_topic_that_was_created_again_is_refused(place: Place, broker: Broker) -> None:
    channel = over(broker)
    place.write("sea")
    run(chain(place, channel))
    delete_topic(broker.servers, channel.topic)
    create_topic(broker.servers, channel.topic, 3)
    place.write("sand")
    assert error_of(lambda: run(chain(place, channel))).catalogue_entry is Code.KAFKA_TOPIC_RECREATED


@pytest.mark.parametrize(("setting", "value"), [("cleanup.policy", "compact"), ("retention.ms", str(HOUR_MS - 1))])
def test_a_topic_that_does_not_keep_its_records_is_refused(
    place: Place, broker: Broker, setting: str, value: str
) -> None:
    channel = over(broker, config={setting: value})
    error = error_of(lambda: run(chain(place, channel)))
    assert (error.catalogue_entry, error.found) == (Code.SINK_UNUSABLE, f"{setting}={value}")


def test_a_topic_belongs_to_one_channel_of_one_job(place: Place, broker: Broker) -> None:
    channel = over(broker)
    place.write("sea")
    run(chain(place, channel))
    error = error_of(lambda: run(chain(place, channel, "copy")))
    assert error.catalogue_entry is Code.CHANNEL_TAKEN
    assert "channel words of job job" in error.found
    run(chain(place, channel))


def test_a_job_that_runs_for_long_claims_its_topic_again(
    place: Place, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLAIMED_AGAIN_AFTER_SECONDS", 0.0)
    channel = over(broker)
    wire = Wire(Clients(broker.servers))
    claim = TopicClaim(wire, "", channel.topic)
    another = SinkIdentity(job="another", job_id="2", generation=1, query="write", sink="words")
    place.write("sea")
    handle = chain(place, channel).start()
    try:
        wait_until(lambda: words_of(place) == ["sea"], "the first word")
        wire.delete_groups([claim.group])
        assert claim.other(another) is None
        place.write("sand")
        wait_until(lambda: words_of(place) == ["sand", "sea"], "the next word")
        assert claim.other(another) is not None
    finally:
        handle.stop()
        wire.close()


def test_of_two_starts_that_claim_a_topic_at_once_one_is_refused(broker: Broker) -> None:
    topic = make_topic(broker.servers)
    wires = [Wire(Clients(broker.servers)) for _ in range(2)]
    first, second = (TopicClaim(wire, "", topic) for wire in wires)
    one = SinkIdentity(job="one", job_id="1", generation=1, query="write", sink="words")
    another = msgspec.structs.replace(one, job="another", job_id="2")

    looks = 0

    def interrupted(wanted: Mapping[str, str | None]) -> object:
        """The other start claims the topic between the first look and the mark of this one."""
        nonlocal looks
        found, looks = Wire.marks(wires[0], wanted), looks + 1
        if looks == 1:
            second.take(another, 60_000)
        return found

    wires[0].marks = interrupted  # pyright: ignore[reportAttributeAccessIssue]
    try:
        error = error_of(lambda: first.take(one, 60_000))
        assert (error.catalogue_entry, looks) == (Code.CHANNEL_TAKEN, 2)
        assert TopicClaim(wires[1], "", topic).other(another) is None
    finally:
        for wire in wires:
            wire.close()


@pytest.mark.parametrize("value", sampled([pytest.param(each, id=each) for each in ("NaN", "Infinity", "-Infinity")]))
def test_a_number_that_json_does_not_have_is_refused_before_it_is_in_the_channel(
    place: Place, broker: Broker, value: str
) -> None:
    channel = over(broker)
    place.write("sea")
    job = chain(place, channel, number=F.array(F.lit(1.0), F.lit(value).cast("double")))
    error = error_of(lambda: run(job))
    assert (error.catalogue_entry, "number" in error.expected) == (Code.RECORD_REFUSED, True)
    assert read_all(broker.servers, channel.topic) == []


def test_a_type_that_json_does_not_have_is_refused_where_the_channel_is_read(place: Place, broker: Broker) -> None:
    channel = over(broker)
    with pytest.raises(TidegateError) as raised:
        chain(place, channel, picture=F.lit("x").cast("binary"))
    assert (raised.value.catalogue_entry, "picture" in raised.value.expected) == (Code.SOURCE_OPTION, True)
