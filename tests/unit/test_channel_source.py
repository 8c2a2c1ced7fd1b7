"""The reading end of a channel on a driver: where a query begins, and which rows are needed no more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from tests.unit.test_channel_log import ids, published, staged
from tidegate.channels import log as channel_log
from tidegate.channels.log import ChannelLog, rows_folder
from tidegate.channels.sink import ChannelSink
from tidegate.core.channel_parts import ALL_LIVE, LiveParts, least, position_in
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import CheckpointRecord, DoneEpoch, encode
from tidegate.operate.forgetting import clear_sink
from tidegate.sinks.base import SinkPlan
from tidegate.spark.sources.channel import ChannelMonitor, ChannelPositions, ChannelSource, OpenedChannel, position_of
from tidegate.spark.sources.source import Ground, Monitor
from tidegate.storages.journals import open_journal
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY, attempt_of
from tidegate.testing.contract_parts import SCHEMA

COLUMNS = StructType([StructField("id", LongType())])


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChannelSink:
    monkeypatch.setattr(channel_log, "TRIMMED_TOGETHER", 2)
    monkeypatch.setattr(ChannelLog.__init__, "__defaults__", (2,))
    return ChannelSink("numbers", Folder.of(tmp_path / "job" / "channels" / "numbers"))


def opened(sink: ChannelSink, source: str = "numbers-in", *readers: str) -> OpenedChannel:
    """A source of this channel, with the queries that read it. No checkpoint is retained."""
    ground = Ground(
        session=cast("Any", None),
        folder=sink.folder.parent.parent / "ingest" / source,
        where=f"job job, source {source}",
        readers=frozenset(f"job.{each}.{source}" for each in readers or ("add",)),
        retained=0,
        epochs_kept=2,
        bounded=False,
        oldest=dict,
    )
    found = ChannelSource(sink, COLUMNS).opened(ground)
    assert isinstance(found, OpenedChannel)
    return found


def told(monitor: Monitor | None, *ends: Mapping[str, int]) -> Monitor:
    assert monitor is not None
    for end in ends:
        monitor.tell([msgspec.json.encode(end).decode()])
    return monitor


def plan(query: str, generation: int = 1) -> SinkPlan:
    return SinkPlan(
        identity=msgspec.structs.replace(IDENTITY, query=query, generation=generation),
        schema=SCHEMA,
        mode="append",
        local_master=True,
        read_journal=lambda _reference: [],
    )


def test_rows_stay_that_another_source_of_the_channel_has_not_passed(sink: ChannelSink) -> None:
    published(sink.log, sink.folder, *range(6))
    fast, slow = opened(sink, "fast"), opened(sink, "slow")
    told(fast.monitor("job.add.fast"), *({"numbers.1.0": 12} for _ in range(2)))
    told(slow.monitor("job.add.slow"), {"numbers.1.0": 1})
    published(sink.log, sink.folder, 6)
    assert len(ChannelLog(sink.folder).between({"numbers.1.0": 1}, {"numbers.1.0": 12}, "")) == 6
    told(slow.monitor("job.add.slow"), {"numbers.1.0": 12}, {"numbers.1.0": 12})
    published(sink.log, sink.folder, 7)
    with pytest.raises(TidegateError, match="TG-CHANNEL-LOST"):
        ChannelLog(sink.folder).between({"numbers.1.0": 1}, {"numbers.1.0": 12}, "")


def test_rows_stay_that_one_of_the_places_at_which_a_query_reads_the_channel_has_not_passed(sink: ChannelSink) -> None:
    """Spark asks for the end of one place after the other: rows may arrive in between."""
    published(sink.log, sink.folder, *range(6))
    monitor = opened(sink).monitor("job.add.numbers-in")
    assert monitor is not None
    for first in (0, 1):
        monitor.tell([msgspec.json.encode({"numbers.1.0": at}).decode() for at in (first, 9, 10, 12)])
    published(sink.log, sink.folder, 6)
    assert len(ChannelLog(sink.folder).between({"numbers.1.0": 1}, {"numbers.1.0": 12}, "")) == 6


def test_rows_go_after_a_restore_also_those_that_it_gave_up(sink: ChannelSink) -> None:
    """The reader stands for ever where the restore has left the part of the older generation."""
    published(sink.log, sink.folder, 0, 1)
    published(sink.log, sink.folder, *range(6), generation=2)
    done = {"numbers.1.0": 2, "numbers.2.0": 12}
    opened(sink)
    told(ChannelMonitor("job.add.numbers-in", sink, LiveParts(2), list), done, done)
    published(sink.log, sink.folder, 6, generation=2)
    assert [open_journal(rows_folder(sink.folder, IDENTITY.job_id, each)).epochs() for each in (1, 2)] == [
        [],
        [4, 5, 6],
    ]


def test_rows_go_after_a_restore_that_has_read_the_rows_in_flight(sink: ChannelSink) -> None:
    """The older generation has written four rows behind the barrier: no reader reads them any more."""
    published(sink.log, sink.folder, *range(4))
    published(sink.log, sink.folder, *range(6), generation=2)
    done = {"numbers.1.0": 4, "numbers.2.0": 12}
    opened(sink)
    live = LiveParts(2, {"numbers.1.0": 4})
    told(ChannelMonitor("job.add.numbers-in", sink, live, list), done, done)
    published(sink.log, sink.folder, 6, generation=2)
    assert [open_journal(rows_folder(sink.folder, IDENTITY.job_id, each)).epochs() for each in (1, 2)] == [
        [],
        [4, 5, 6],
    ]


@pytest.mark.parametrize("live", [LiveParts(2, {"numbers.1.0": 4}), ALL_LIVE], ids=["restored", "continued"])
def test_rows_stay_of_a_generation_that_no_reader_has_begun(sink: ChannelSink, live: LiveParts) -> None:
    """Its epochs have ended in the part of the older generation; meanwhile the writer has written many in the new one.
    Also while a checkpoint under way holds later rows of the new one.
    """
    published(sink.log, sink.folder, *range(2))
    published(sink.log, sink.folder, *range(6), generation=2)
    opened(sink)
    sink.passed.hold({"numbers.1.0": 4, "numbers.2.0": 11})
    done = {"numbers.1.0": 4}
    told(ChannelMonitor("job.add.numbers-in", sink, live, list), done, done)
    published(sink.log, sink.folder, 6, generation=2)
    assert len(ChannelLog(sink.folder).between(done, {**done, "numbers.2.0": 14}, "")) == 7


def test_rows_stay_of_a_generation_that_no_reader_stands_in(sink: ChannelSink) -> None:
    """One reader has left it behind, and another one has not begun it."""
    published(sink.log, sink.folder, *range(2))
    published(sink.log, sink.folder, *range(6), generation=2)
    sink.log.trim(least([{"numbers.1.0": 4}, {"numbers.3.0": 2}]))
    published(sink.log, sink.folder, 0, generation=3)
    assert len(ChannelLog(sink.folder).between({}, {"numbers.2.0": 12}, "")) == 6


def test_rows_stay_of_a_generation_that_only_a_checkpoint_under_way_has_begun(sink: ChannelSink) -> None:
    """One reader has left it behind, and another one needs it from its first row."""
    published(sink.log, sink.folder, *range(2))
    published(sink.log, sink.folder, *range(6), generation=2)
    published(sink.log, sink.folder, *range(6), generation=3)
    channel = opened(sink, "numbers-in", "slow", "fast")
    sink.passed.hold({"numbers.2.0": 9})
    told(channel.monitor("job.slow.numbers-in"), *({"numbers.1.0": 4} for _ in range(2)))
    told(channel.monitor("job.fast.numbers-in"), *({"numbers.3.0": 12} for _ in range(2)))
    published(sink.log, sink.folder, 6, generation=3)
    assert len(ChannelLog(sink.folder).between({}, {"numbers.2.0": 12}, "")) == 6


def test_rows_in_flight_stay_for_a_reader_that_the_program_does_not_have_any_more(sink: ChannelSink) -> None:
    """The checkpoint is retained: the program as it was reads them. So it is where only the uid of a source is new."""
    published(sink.log, sink.folder, *range(6))
    retain(sink.folder.parent.parent, position=3, barrier=6)
    done = {"numbers.1.0": 12}
    told(opened(sink, "renamed", "other").monitor("job.other.renamed"), done, done)
    published(sink.log, sink.folder, 6)
    assert rows_at(sink, 3, 6) == [3, 4, 5]


def test_rows_in_flight_of_a_checkpoint_stay_also_while_it_is_under_way(sink: ChannelSink) -> None:
    """The reader runs on; its snapshot stands before row 3, and the barrier behind row 5."""
    published(sink.log, sink.folder, *range(6))
    folder, done = sink.folder.parent.parent, {"numbers.1.0": 12}
    monitor = told(opened(sink).monitor("job.add.numbers-in"), done)
    sink.passed.hold({"numbers.1.0": 3})
    told(monitor, done)
    published(sink.log, sink.folder, 6)
    assert rows_at(sink, 3, 6) == [3, 4, 5]
    retain(folder, position=3, barrier=6)
    sink.passed.release()
    told(monitor, done)
    published(sink.log, sink.folder, 7)
    assert rows_at(sink, 3, 6) == [3, 4, 5]
    retain(folder, position=12, barrier=12)
    told(monitor, done)
    published(sink.log, sink.folder, 8)
    with pytest.raises(TidegateError, match="TG-CHANNEL-LOST"):
        rows_at(sink, 3, 6)


def test_a_restored_reader_reads_the_rows_in_flight_and_skips_those_behind_the_barrier(sink: ChannelSink) -> None:
    published(sink.log, sink.folder, *range(3))
    published(sink.log, sink.folder, 0, generation=2)
    live = LiveParts(2, {"numbers.1.0": 4})
    positions = ChannelPositions(sink, "", {"numbers.1.0": 3}, lambda: 1, live)
    end = positions.after(positions.first())
    assert end == {"numbers.1.0": 4, "numbers.2.0": 2}
    read = [each for rows in positions.parts(positions.first(), end) for each in rows]
    assert [(each.part, each.begin, each.rows) for each in read] == [("numbers.1.0", 3, 1), ("numbers.2.0", 0, 2)]


def rows_at(sink: ChannelSink, begin: int, end: int) -> list[int]:
    found = ChannelLog(sink.folder).between({"numbers.1.0": begin}, {"numbers.1.0": end}, "")
    return [number for each in found for number in range(each.begin, each.begin + each.rows)]


def retain(job: Folder, position: int, barrier: int) -> None:
    """The job's only retained checkpoint: a reader stands at this row, and the writer at that one."""
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
    done = DoneEpoch(
        query="add",
        generation=1,
        epoch=0,
        run=1,
        sources=("numbers-in",),
        sinks=(),
        offsets="\n".join(["v1", metadata, f'{{"numbers.1.0":{position}}}']).encode(),
        commits=b"",
    )
    record = CheckpointRecord(
        number=1,
        job="job",
        job_id=IDENTITY.job_id,
        at="2026-01-01",
        queries=(done,),
        in_flight={"numbers.1.0": barrier} if barrier > position else {},
    )
    open_storage(job).replace("checkpoints/1/_metadata.json", encode(record))


def test_rows_stay_of_a_part_that_a_reader_has_not_begun() -> None:
    assert least([{"numbers.1.0": 8}, {"numbers.1.0": 8, "numbers.2.0": 40}]) == {"numbers.1.0": 8, "numbers.2.0": 0}
    assert least([{"numbers.2.0": 8}, {"numbers.1.0": 8, "numbers.2.0": 40}]) == {"numbers.1.0": 8, "numbers.2.0": 8}
    assert least([{"numbers.10.0": 8}, {"numbers.9.0": 3}]) == {"numbers.9.0": 3, "numbers.10.0": 0}


def test_each_start_looks_again_at_what_other_drivers_have_published(sink: ChannelSink) -> None:
    published(sink.log, sink.folder, 0)
    published(ChannelLog(sink.folder), sink.folder, 1)
    assert sink.check(plan("by-day")) == []
    position = sink.position(IDENTITY)
    assert position is not None
    assert position.epoch == 1
    opened(sink).compare("a test", '{"numbers.1.0": 4}')


def test_another_query_may_write_a_channel_only_in_a_new_generation(sink: ChannelSink) -> None:
    published(sink.log, sink.folder, 0)
    assert sink.check(plan("by-day")) == []
    [refused] = sink.check(plan("by-night"))
    assert refused.catalogue_entry is Code.CHANNEL_TAKEN
    assert sink.check(plan("by-night", generation=2)) == []


def test_a_reader_that_is_added_later_begins_at_the_oldest_row_that_is_there(sink: ChannelSink) -> None:
    where, level = "a test", Level.EXACTLY_ONCE
    assert opened(sink).begin(where, level, 1) == '{"numbers.1.0":0}'
    published(sink.log, sink.folder, *range(6))
    sink.log.trim({"numbers.1.0": 12})
    published(sink.log, sink.folder, 6)
    begin = opened(sink).begin(where, level, 1)
    assert begin == '{"numbers.1.0":8}'
    assert len(sink.log.between(msgspec.json.decode(begin), sink.log.ends, "")) == 3
    assert opened(sink).begin(where, level, 2) == '{"numbers.2.0":0}'


def test_rows_of_an_abandoned_generation_are_not_behind(sink: ChannelSink) -> None:
    published(sink.log, sink.folder, 0, 1)
    published(sink.log, sink.folder, 0, generation=2)
    monitor = opened(sink).monitor("job.add.numbers-in")
    assert told(monitor, {"numbers.2.0": 0}).behind() == 2
    assert told(monitor, {"numbers.1.0": 3}).behind() == 3


def test_what_an_interrupted_trim_has_left_goes_with_the_next_one(sink: ChannelSink) -> None:
    published(sink.log, sink.folder, *range(6))
    open_storage(sink.folder / "epochs").delete_all(["000000000000", "000000000001"])  # then the process was killed
    log = ChannelLog(sink.folder)
    log.trim({"numbers.1.0": 12})
    published(log, sink.folder, 6)
    assert open_journal(rows_folder(sink.folder, IDENTITY.job_id, 1)).epochs() == [4, 5, 6]


def test_an_epoch_ends_where_the_channel_ends(sink: ChannelSink) -> None:
    published(sink.log, sink.folder, 0)
    positions = ChannelPositions(sink, "", {"numbers.1.0": 0}, lambda: 2)
    positions.catch_up()
    sink.log.publish([staged(sink.folder, attempt_of(epoch=1))])
    assert positions.after({"numbers.1.0": 0}) == {"numbers.1.0": 2}


@pytest.mark.parametrize(
    "position",
    ['{"other.1.0": 0}', '{"numbers.1.0": 2, "other.1.0": 1}', '{"logOffset": 3}', '{"topic": {"0": 1}}', "{}"],
)
def test_a_query_that_has_read_another_channel_does_not_go_on_in_this_one(sink: ChannelSink, position: str) -> None:
    published(sink.log, sink.folder, 0)
    with pytest.raises(TidegateError) as refused:
        opened(sink).compare("a test", position)
    assert refused.value.catalogue_entry is Code.SOURCES_CHANGED
    with pytest.raises(TidegateError):
        position_of(position, "numbers", "a test")


def test_a_retained_checkpoint_of_another_source_under_this_uid_keeps_no_row() -> None:
    assert position_in('{"logOffset": 3}', "numbers") is None
    assert position_in('{"topic": {"0": 1}}', "numbers") is None
    assert position_in('{"numbers.1.0": 1}', "numbers") == {"numbers.1.0": 1}


def test_forgetting_an_earlier_job_of_this_name_leaves_the_rows_of_this_one(sink: ChannelSink) -> None:
    published(sink.log, sink.folder, 0)
    decided = staged(sink.folder, attempt_of(epoch=1))
    clear_sink(sink, [msgspec.structs.replace(IDENTITY, job_id="beef")])
    assert ids(sink.log, sink.folder, {"numbers.1.0": 0}, {"numbers.1.0": 2}) == [0, 1]
    assert ChannelLog(sink.folder).publish([decided])[1]
    clear_sink(sink, [IDENTITY])
    assert ChannelLog(sink.folder).ends == {}
    assert open_storage(sink.folder.parent).folders("") == []
