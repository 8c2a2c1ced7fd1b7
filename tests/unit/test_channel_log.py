"""The log of a channel: two drivers that publish, a driver that was paused, and rows that are needed no more."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from tidegate.channels import log as channel_log
from tidegate.channels.log import ChannelLog, PublishedRows, StagedRows, rows_folder
from tidegate.channels.reading import ChannelRowsOfTask, shared_by_tasks
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt, Committable, JournalRef, committable_digest
from tidegate.sinks.standing import Standing
from tidegate.storages.journals import open_journal
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY, attempt_of
from tidegate.testing.contract_parts import SCHEMA, rows_from

NOWHERE = Folder.of("/nowhere")


def staged(folder: Folder, attempt: Attempt, rows: int = 2) -> StagedRows:
    """Rows whose ids begin at a thousand times the epoch's number."""
    writer = open_journal(rows_folder(folder, attempt.sink.job_id, attempt.sink.generation)).writer(
        f"{attempt.epoch}/{attempt.name}.arrow"
    )
    writer.write(rows_from(attempt.epoch, rows))
    reference = writer.close()
    assert reference is not None
    digest = committable_digest(attempt, reference.checksum)
    return StagedRows(Committable(attempt=attempt, rows=rows, digest=digest), {0: reference})


def published(log: ChannelLog, folder: Folder, *epochs: int, generation: int = 1) -> None:
    for epoch in epochs:
        found = log.publish([staged(folder, attempt_of(generation=generation, epoch=epoch))])
        assert found == (Standing.SAME, True)


def ids(log: ChannelLog, folder: Folder, begin: dict[str, int], end: dict[str, int]) -> list[int]:
    read = ChannelRowsOfTask(folder, SCHEMA, "a test")
    return [row["id"] for batch in read(log.between(begin, end, "a test")) for row in batch.to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.of(tmp_path / "channel")


def test_rows_have_the_numbers_of_their_publication_and_are_read_by_ranges(folder: Folder) -> None:
    log = ChannelLog(folder)
    published(log, folder, 0, 1, 2)
    assert log.ends == {"channel.1.0": 6}
    assert ids(log, folder, {"channel.1.0": 0}, {"channel.1.0": 6}) == [0, 1, 1000, 1001, 2000, 2001]
    assert ids(log, folder, {"channel.1.0": 1}, {"channel.1.0": 3}) == [1, 1000]
    assert ids(log, folder, {"channel.1.0": 3}, {"channel.1.0": 3}) == []


def test_rows_of_an_epoch_are_in_the_order_of_its_tasks(folder: Folder) -> None:
    log = ChannelLog(folder)
    tasks = [staged(folder, attempt_of(task=task)) for task in (2, 0, 1)]
    log.publish(tasks)
    assert [each.journal.name for each in log.between({}, log.ends, "")] == [
        tasks[number].journals[0].name for number in (1, 2, 0)
    ]


def test_of_two_drivers_that_publish_the_same_epoch_one_wins(folder: Folder) -> None:
    first, second = ChannelLog(folder), ChannelLog(folder)
    rows = staged(folder, attempt_of())
    assert first.publish([rows]) == (Standing.SAME, True)
    assert second.publish([rows]) == (Standing.SAME, False)
    assert ChannelLog(folder).ends == {"channel.1.0": 2}


def test_a_paused_driver_finds_that_its_epoch_was_published_and_that_others_came_behind_it(folder: Folder) -> None:
    paused = ChannelLog(folder)
    rows = staged(folder, attempt_of(epoch=1))
    successor = ChannelLog(folder)
    successor.publish([rows])
    published(successor, folder, 2, 3)
    assert paused.publish([rows]) == (Standing.SAME, False)
    assert paused.ends == successor.ends


def test_another_timeline_of_an_epoch_is_refused(folder: Folder) -> None:
    log = ChannelLog(folder)
    log.publish([staged(folder, attempt_of(run=1))])
    assert log.publish([staged(folder, attempt_of(run=2))]) == (Standing.OTHER, False)
    assert log.publish([staged(folder, attempt_of(epoch=3))]) == (Standing.SAME, True)
    assert log.publish([staged(folder, attempt_of(epoch=2))]) == (Standing.LATER, False)


def test_a_driver_of_an_older_generation_publishes_nothing_more(folder: Folder) -> None:
    paused = ChannelLog(folder)
    published(paused, folder, 0)
    successor = ChannelLog(folder)
    published(successor, folder, 0, generation=2)
    late = [staged(folder, attempt_of(epoch=1))]
    assert paused.publish(late) == successor.publish(late) == (Standing.LATER, False)
    assert paused.ends == {"channel.1.0": 2, "channel.2.0": 2}


def test_rows_that_all_have_passed_go_behind_the_next_epoch(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_log, "TRIMMED_TOGETHER", 2)
    log = ChannelLog(folder, kept_at_least=2)
    published(log, folder, *range(5))
    log.trim({"channel.1.0": 7})
    assert len(log.between({"channel.1.0": 0}, log.ends, "")) == 5  # only the next record says that they have gone
    published(log, folder, 5)
    journal = open_journal(rows_folder(folder, IDENTITY.job_id, 1))
    assert journal.epochs() == [3, 4, 5]
    assert ids(ChannelLog(folder), folder, {"channel.1.0": 7}, {"channel.1.0": 9}) == [3001, 4000]
    with pytest.raises(TidegateError) as lost:
        ChannelLog(folder).between({"channel.1.0": 5}, {"channel.1.0": 9}, "query add")
    assert lost.value.catalogue_entry is Code.CHANNEL_LOST


def test_a_late_record_below_the_oldest_one_counts_for_no_reader(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trim has made its number free."""
    monkeypatch.setattr(channel_log, "TRIMMED_TOGETHER", 2)
    paused = ChannelLog(folder, kept_at_least=2)
    late = staged(folder, attempt_of(epoch=0))
    log = ChannelLog(folder, kept_at_least=2)
    log.publish([late])
    published(log, folder, *range(1, 5))
    log.trim({"channel.1.0": 10})
    published(log, folder, 5)
    assert paused.publish([staged(folder, late.committable.attempt)])[1]
    found = ChannelLog(folder)
    assert found.ends == log.ends
    assert found.entry(1, 0) is None
    found.sweep()
    assert open_storage(folder / "epochs").list("") == [f"{number:012}" for number in (3, 4, 5)]


def test_rows_are_shared_by_tasks_in_their_order() -> None:
    def rows(begin: int, count: int) -> PublishedRows:
        journal = JournalRef(name=str(begin), rows=count, size_bytes=1, checksum="")
        return PublishedRows("job", 1, "channel.1.0", begin, count, 0, journal)

    found = [rows(0, 10), rows(10, 1), rows(11, 1), rows(12, 8)]
    assert [[each.begin for each in share] for share in shared_by_tasks(found, 2)] == [[0], [10, 11, 12]]
    assert shared_by_tasks([], 2) == []
    assert [len(share) for share in shared_by_tasks(found, 9)] == [1, 1, 1, 1]


def test_batches_that_lie_across_a_range_are_cut(folder: Folder) -> None:
    attempt = attempt_of()
    writer = open_journal(rows_folder(folder, IDENTITY.job_id, 1)).writer("0/rows.arrow")
    for first in range(3):
        writer.write(rows_from(first, 3))
    reference = writer.close()
    assert reference is not None
    log = ChannelLog(folder)
    log.publish([StagedRows(Committable(attempt=attempt, rows=9, digest="d"), {0: reference})])
    assert ids(log, folder, {"channel.1.0": 2}, {"channel.1.0": 7}) == [2, 1000, 1001, 1002, 2000]


def test_other_columns_than_those_of_the_writer_are_refused(folder: Folder) -> None:
    log = ChannelLog(folder)
    published(log, folder, 0)
    other = ChannelRowsOfTask(folder, pa.schema([("number", pa.int64())]), "query add")
    with pytest.raises(TidegateError, match="TG-SOURCES-CHANGED"):
        list(other(log.between({}, log.ends, "")))


def test_the_records_of_a_channel_survive_the_round_trip(folder: Folder) -> None:
    log = ChannelLog(folder)
    published(log, folder, 0)
    again = ChannelLog(folder)
    assert again.entry(1, 0) == log.entry(1, 0)
    assert again.position("by-day") == log.position("by-day")
    assert again.position("another") is None
    assert msgspec.json.encode(dict(again.ends)) == b'{"channel.1.0":2}'
