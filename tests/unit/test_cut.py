"""The cut of a savepoint across the channels of a job: every reader stands where the saved epoch of the writer ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.test_channel_log import published
from tidegate.channels.log import ChannelLog
from tidegate.core.barriers import Alignment
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import START
from tidegate.core.records import DoneEpoch, JobRecord, Start, encode
from tidegate.core.spark_log import NO_OFFSET
from tidegate.savepoints.cut import demand_cut
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY

JOB = JobRecord(name="job", job_id=IDENTITY.job_id, generation=1)


def saved(query: str, epoch: int, *read: Mapping[str, int]) -> DoneEpoch:
    """A query at the end of an epoch. `read`: the positions of one source, which the query reads so many times; empty
    before its first epoch.
    """
    positions = [json.dumps(each) if each else NO_OFFSET for each in read]
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
    sources = ("numbers-in",) * len(read)
    return DoneEpoch(
        query=query,
        generation=1,
        epoch=epoch,
        run=1,
        sources=sources,
        sinks=(),
        offsets="\n".join(["v1", metadata, *positions]).encode(),
        commits=b'v1\n{"nextBatchWatermarkMs":0}',
        progress={},
    )


@pytest.fixture
def job(tmp_path: Path) -> Folder:
    """The writer has published three epochs of two rows."""
    folder = Folder.of(tmp_path / "job")
    channel = folder / "channels" / "numbers"
    published(ChannelLog(channel), channel, 0, 1, 2)
    return folder


def test_a_savepoint_is_a_cut_if_each_reader_stands_where_the_saved_epoch_of_the_writer_ends(job: Folder) -> None:
    demand_cut(job, JOB, [saved("by-day", 2), saved("add", 7, {"numbers.1.0": 6})])
    demand_cut(job, JOB, [saved("by-day", 1), saved("add", 7, {"numbers.1.0": 4})])


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ([{"numbers.1.0": 4}], "rows that it has not read: 2"),
        ([{"numbers.1.0": 4}, {"numbers.1.0": 6}], "rows that it has not read: 2"),
        ([{"numbers.1.0": 6}, {"numbers.1.0": 4}], "rows that it has not read: 2"),
        ([{"numbers.1.0": 8}], "rows that it has read behind it: 2"),
    ],
)
def test_rows_in_a_channel_refuse_a_savepoint_also_of_a_source_that_is_read_twice(
    job: Folder, read: list[dict[str, int]], found: str
) -> None:
    with pytest.raises(TidegateError) as refused:
        demand_cut(job, JOB, [saved("by-day", 2), saved("add", 7, *read)])
    assert (refused.value.code, refused.value.found) == ("TG-SAVEPOINT-REFUSED", found)


@pytest.mark.parametrize("alignment", Alignment)
def test_no_row_may_be_behind_a_source_that_is_new_and_has_no_position_yet(job: Folder, alignment: Alignment) -> None:
    """A restore begins it in the newest generation: there the rows would be missing."""
    start = Start(
        job_id=JOB.job_id,
        generation=1,
        first_epoch=8,
        sources=("numbers-in",),
        sinks=(),
        positions={"numbers-in": '{"numbers.1.0":4}'},
    )
    open_storage(job / "queries" / "add" / "g1").put_if_absent(START, encode(start))
    demand_cut(job, JOB, [saved("by-day", 1), saved("add", 7, {})], alignment)
    with pytest.raises(TidegateError) as refused:
        demand_cut(job, JOB, [saved("by-day", 2), saved("add", 7, {})], alignment)
    assert (refused.value.code, refused.value.found) == ("TG-SAVEPOINT-REFUSED", "rows that it has not read: 2")


def test_at_least_once_only_a_reader_of_several_channels_may_be_ahead(job: Folder) -> None:
    other = job / "channels" / "others"
    published(ChannelLog(other), other, 0, 1, 2)
    ahead, both = saved("add", 7, {"numbers.1.0": 6}), saved("add", 7, {"numbers.1.0": 6}, {"others.1.0": 4})
    demand_cut(job, JOB, [saved("by-day", 1), both], Alignment.AT_LEAST_ONCE)
    with pytest.raises(TidegateError) as refused:
        demand_cut(job, JOB, [saved("by-day", 1), ahead], Alignment.AT_LEAST_ONCE)
    assert (refused.value.code, refused.value.found) == ("TG-SAVEPOINT-REFUSED", "rows that it has read behind it: 2")


def test_a_channel_whose_rows_are_elsewhere_ends_where_the_record_of_the_saved_epoch_says(tmp_path: Path) -> None:
    """A driver that dies between the end of an epoch and its record leaves rows that no record names: without them the
    savepoint would lose them, because a restore skips what the older generation has written behind it.
    """
    folder = Folder.of(tmp_path / "job")
    log = ChannelLog(folder / "channels" / "numbers")
    for epoch, end in enumerate((2, 2, 6)):
        log.note(JOB.job_id, "by-day", 1, epoch, {"numbers.1.0": end})
    demand_cut(folder, JOB, [saved("by-day", 1), saved("add", 7, {"numbers.1.0": 2})])
    demand_cut(folder, JOB, [saved("by-day", 2), saved("add", 7, {"numbers.1.0": 6})])
    with pytest.raises(TidegateError) as refused:
        demand_cut(folder, JOB, [saved("by-day", 3), saved("add", 7, {"numbers.1.0": 6})])
    assert (refused.value.code, refused.value.found) == ("TG-SAVEPOINT-REFUSED", "no record of that epoch")
