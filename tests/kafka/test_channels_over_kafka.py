"""The jobs of the tests of embedded channels, over Kafka: the same rows in every reader, the same cuts and ends."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.conftest import spark  # noqa: F401  # pyright: ignore[reportUnusedImport] (a fixture)
from tests.integration.place import Place
from tests.integration.test_channel_checkpoints import (
    test_a_job_goes_back_to_each_of_its_retained_checkpoints_and_its_outputs_are_exact as test_checkpoints,
)
from tests.integration.test_channel_ends import (
    test_a_drain_ends_event_time_query_after_query as test_drain,
)
from tests.integration.test_channel_ends import (
    test_a_stop_leaves_no_row_in_a_channel as test_stop,
)
from tests.integration.test_channel_ends import (
    test_rows_that_an_end_leaves_come_at_the_next_start as test_rows_left,
)
from tests.integration.test_channel_savepoints import (
    test_a_cancel_with_a_savepoint_reads_the_channels_to_their_end as test_cancel,
)
from tests.integration.test_channel_savepoints import (
    test_a_job_resumes_elsewhere_from_the_savepoint_of_its_stop as test_elsewhere,
)
from tests.integration.test_channel_savepoints import (
    test_a_savepoint_of_a_diamond_under_load_is_restored_elsewhere_with_exact_outputs as test_diamond,
)
from tests.integration.test_channel_savepoints import (
    test_a_savepoint_waits_until_a_slow_reader_stands_at_the_barrier as test_barrier,
)
from tests.integration.test_channel_savepoints import (
    test_rows_of_the_timeline_that_a_restore_gives_up_are_not_read as test_timeline,
)
from tests.integration.test_channels import (
    test_a_fresh_generation_reads_no_row_of_the_older_one as test_fresh,
)
from tests.integration.test_channels import (
    test_a_reader_that_is_added_later_reads_what_is_there as test_added_reader,
)
from tests.integration.test_channels import (
    test_a_renamed_writer_is_refused_before_it_publishes as test_renamed_writer,
)
from tests.integration.test_channels import (
    test_two_channels_meet_in_one_query as test_two_channels,
)
from tests.integration.test_unaligned_checkpoints import (
    test_a_restore_reads_the_rows_in_flight_and_is_exact as test_in_flight,
)
from tidegate import Job, KafkaChannel
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

__all__ = [
    "test_added_reader",
    "test_barrier",
    "test_cancel",
    "test_checkpoints",
    "test_diamond",
    "test_drain",
    "test_elsewhere",
    "test_fresh",
    "test_in_flight",
    "test_renamed_writer",
    "test_rows_left",
    "test_stop",
    "test_timeline",
    "test_two_channels",
]


pytestmark = pytest.mark.more
"""`test_kafka_channels` has what is special; these are the whole jobs once more."""


class PlaceOverKafka(Place):
    """Each channel of a job has a topic of its own, with three partitions."""

    servers: str
    topics: dict[tuple[str, ...], KafkaChannel]

    def job(self, name: str = "job", **settings: Any) -> Job:
        job = super().job(name, **settings)
        job.channel = partial(self._channel, job)  # pyright: ignore[reportAttributeAccessIssue]
        return job

    def _channel(self, job: Job, uid: str, max_unread: int | None = None) -> object:
        names = job.settings.checkpointing_dir, job.name, uid
        if names not in self.topics:
            self.topics[names] = KafkaChannel(self.servers, make_topic(self.servers, 3))
        return Job.channel(job, uid, self.topics[names], max_unread=max_unread)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, broker: Broker) -> Place:  # noqa: F811 (the fixture)
    place = PlaceOverKafka(tmp_path, spark)
    place.servers, place.topics = broker.servers, {}
    return place
