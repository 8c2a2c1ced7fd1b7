"""The jobs of the tests of embedded channels, with a key: the same rows in every reader, the same cuts and ends."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.place import Place
from tests.integration.test_channel_checkpoints import (
    test_a_job_goes_back_to_each_of_its_retained_checkpoints_and_its_outputs_are_exact as test_checkpoints,
)
from tests.integration.test_channel_ends import (
    test_a_stop_leaves_no_row_in_a_channel as test_stop,
)
from tests.integration.test_channel_ends import (
    test_a_writer_waits_for_a_reader_that_is_too_far_behind_and_the_job_ends_all_the_same as test_max_unread,
)
from tests.integration.test_channel_savepoints import (
    test_a_job_resumes_elsewhere_from_the_savepoint_of_its_stop as test_elsewhere,
)
from tests.integration.test_channel_savepoints import (
    test_a_savepoint_of_a_diamond_under_load_is_restored_elsewhere_with_exact_outputs as test_diamond,
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
from tests.integration.test_graph_changes import (
    test_a_reader_that_is_removed_holds_no_row_back_and_cannot_come_back_behind_them as test_removed_reader,
)
from tests.integration.test_graph_changes import (
    test_rows_in_flight_of_a_reader_that_goes_are_removed_and_an_added_reader_does_not_read_them as test_gone_in_flight,
)
from tests.integration.test_unaligned_checkpoints import (
    test_a_restore_reads_the_rows_in_flight_and_is_exact as test_in_flight,
)
from tidegate import EmbeddedChannel, Job

__all__ = [
    "test_added_reader",
    "test_checkpoints",
    "test_diamond",
    "test_elsewhere",
    "test_fresh",
    "test_gone_in_flight",
    "test_in_flight",
    "test_max_unread",
    "test_removed_reader",
    "test_stop",
    "test_timeline",
]


pytestmark = pytest.mark.more
"""`test_channels` has what is special; these are the whole jobs once more."""


class PlaceOfKeys(Place):
    """Each channel of a job has three partitions, by the word."""

    def job(self, name: str = "job", **settings: Any) -> Job:
        job = super().job(name, **settings)
        job.channel = partial(self._channel, job)  # pyright: ignore[reportAttributeAccessIssue]
        return job

    def _channel(self, job: Job, uid: str, max_unread: int | None = None) -> object:
        return Job.channel(job, uid, EmbeddedChannel("word", 3), max_unread=max_unread)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return PlaceOfKeys(tmp_path, spark)
