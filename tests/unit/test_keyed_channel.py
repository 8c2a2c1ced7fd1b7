"""A keyed channel: the partition of a row, what its log publishes, and which task reads it."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tidegate.channels.log import ChannelLog, PublishedRows, rows_folder
from tidegate.channels.partitions import by_partition, partitions_of, refused_key
from tidegate.channels.reading import ChannelRowsOfTask, shared_by_tasks
from tidegate.channels.sink import ChannelSink, EmbeddedChannel
from tidegate.core.channel_parts import number_of
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import ChannelKey, Committable, JournalRef, Outcome
from tidegate.sinks.arrow import columns_of
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY, attempt_of
from tidegate.testing.contract_parts import begun

SCHEMA = pa.schema([("account", pa.string()), ("number", pa.int64())])
EIGHT = ChannelKey(column="account", partitions=8)
_MOMENT = 1_769_862_600_000_000
"""2026-01-31T12:30:00Z, in microseconds."""
ACCOUNTS = [f"account-{number}" for number in range(40)]


# --- the partition of a row --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values", "numbers"),
    [
        (pa.string(), ["a", "b", None, "a", "", "ä"], [50, 46, 0, 50, 52, 32]),
        (pa.int64(), [7, -8, None], [30, 87, 0]),
        (pa.float64(), [1.5, 0.0, -0.0, 1e300, math.inf, math.nan], [87, 40, 40, 65, 57, 80]),
        (pa.decimal128(10, 2), [Decimal("7.00"), Decimal("-0.05")], [37, 75]),
        (pa.bool_(), [True, False], [20, 34]),
        (pa.binary(), [b"a", b"\xff", b""], [50, 96, 52]),
        (pa.date32(), [dt.date(2026, 1, 31)], [8]),
        (pa.timestamp("us", "UTC"), [_MOMENT], [54]),
        (pa.timestamp("us"), [_MOMENT], [11]),
    ],
    ids=str,
)
def test_a_value_is_in_the_same_partition_for_ever(kind: pa.DataType, values: list[Any], numbers: list[int]) -> None:
    """A channel may have rows of an older release, and of another machine."""
    assert partitions_of(pa.array(values, kind), 100).to_pylist() == numbers


def test_values_that_spark_groups_together_are_in_one_partition() -> None:
    def number(value: Any, kind: pa.DataType) -> object:
        return partitions_of(pa.array([value], kind), 1 << 20).to_pylist()[0]

    assert number(0.0, pa.float64()) == number(-0.0, pa.float64()) == number(-0.0, pa.float32())
    assert number(math.nan, pa.float64()) == number(-math.nan, pa.float64())
    assert number(7, pa.int32()) == number(7, pa.int64()) == number(Decimal(7), pa.decimal128(10, 0))
    assert number(_MOMENT, pa.timestamp("us", "UTC")) == number(_MOMENT, pa.timestamp("us", "America/New_York"))
    assert number("a", pa.string()) == number("a", pa.large_string()) == number(b"a", pa.binary())


@pytest.mark.parametrize("like", ["account-{}", "{}", "{:08}", "user{}@example.com", "{}.50"])
@pytest.mark.parametrize("partitions", [2, 8, 12, 64])
def test_keys_are_spread_evenly(like: str, partitions: int) -> None:
    keys = pa.array([like.format(number) for number in range(200 * partitions)])
    found = partitions_of(keys, partitions).to_pylist()
    counts = [found.count(number) for number in range(partitions)]
    assert 120 < min(counts) <= max(counts) < 280


def test_the_rows_of_a_partition_keep_their_order() -> None:
    rng = random.Random(1)
    rows = [{"account": rng.choice(ACCOUNTS), "number": number} for number in range(500)]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    found = [(number, each.to_pylist()) for number, each in by_partition(batch, EIGHT)]
    assert [number for number, _ in found] == sorted({number for number, _ in found})
    for number, some in found:
        there = partitions_of(columns_of(batch)[0], 8).to_pylist()
        assert some == [row for row, its in zip(rows, there, strict=True) if its == number]


@pytest.mark.parametrize(
    ("key", "code"),
    [("nowhere", Code.KEY_COLUMN), ("tags", Code.SCHEMA_MISMATCH), ("pair", Code.SCHEMA_MISMATCH)],
)
def test_a_key_that_has_no_value_to_hash_is_refused_before_the_start(key: str, code: Code) -> None:
    columns = [("account", pa.string()), ("tags", pa.list_(pa.string())), ("pair", pa.struct([("x", pa.int64())]))]
    [error] = refused_key(ChannelKey(column=key, partitions=8), pa.schema(columns), "channel orders")
    assert (error.catalogue_entry, error.where) == (code, "channel orders")


@pytest.mark.parametrize("partitions", [0, 257])
def test_a_number_of_partitions_that_no_task_can_write_is_refused(partitions: int) -> None:
    with pytest.raises(TidegateError, match="TG-SETTING-VALUE"):
        EmbeddedChannel("account", partitions).sink("orders", Folder.of("/nowhere"), None)


# --- what is published -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.of(tmp_path / "orders")


class Writer:
    """Each task writes, for each account, numbers that grow."""

    def __init__(self, folder: Folder, key: ChannelKey | None = EIGHT) -> None:
        self.sink = ChannelSink("orders", folder, key=key)
        self.number = 0

    def prepared(self, epoch: int, task: int, accounts: list[str], generation: int = 1) -> Committable:
        transaction = begun(self.sink, attempt_of(epoch=epoch, task=task, generation=generation))
        for some in (accounts[:7], accounts[7:]):
            rows = [{"account": account, "number": self.number + at} for at, account in enumerate(some)]
            self.number += len(some)
            if rows:
                transaction.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        found = transaction.pre_commit()
        assert found is not None
        return found

    def publish(self, epoch: int, accounts: list[str], generation: int = 1) -> None:
        """In two tasks, which both have rows of every account; the second one is handed over first."""
        tasks = [self.prepared(epoch, task, accounts, generation) for task in range(2)]
        assert {each.outcome for each in self.sink.commit(tasks[::-1])} == {Outcome.COMMITTED}


def read(folder: Folder, rows: Sequence[tuple[PublishedRows, ...]]) -> list[list[dict[str, Any]]]:
    """What each task reads."""
    of_task = ChannelRowsOfTask(folder, SCHEMA, "a test")
    return [[row for batch in of_task(share) for row in batch.to_pylist()] for share in rows]


def in_order_in_one_task(tasks: list[list[dict[str, Any]]]) -> bool:
    """True if all rows of an account are in one task, in the order of the writes."""
    for account in ACCOUNTS:
        where = [task for task in tasks if any(row["account"] == account for row in task)]
        if len(where) > 1:
            return False
        numbers = [row["number"] for task in where for row in task if row["account"] == account]
        if numbers != sorted(numbers):
            return False
    return True


def test_rows_are_put_into_parts_by_key_in_the_order_of_tasks(folder: Folder) -> None:
    writer = Writer(folder)
    writer.publish(0, ACCOUNTS)
    ends = writer.sink.log.ends
    assert set(ends) == {f"orders.1.{number}" for number in range(8)}
    assert sum(ends.values()) == 80
    for part in ends:
        [rows] = read(folder, [tuple(writer.sink.log.between({}, {part: ends[part]}, ""))])
        found = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        assert set(partitions_of(columns_of(found)[0], 8).to_pylist()) == {number_of(part)}
        numbers = [row["number"] for row in rows]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("tasks", [1, 2, 3, 5, 8, 50])
def test_no_partition_is_read_by_two_tasks_and_each_is_read_in_its_order(folder: Folder, tasks: int) -> None:
    """One epoch of a reader reads several of the writer."""
    writer, rng = Writer(folder), random.Random(tasks)
    for epoch in range(4):
        writer.publish(epoch, rng.sample(ACCOUNTS, 25))
    shares = shared_by_tasks(writer.sink.log.between({}, writer.sink.log.ends, ""), tasks)
    found = read(folder, shares)
    assert len(found) == min(tasks, len(writer.sink.log.ends))
    assert sorted(row["number"] for task in found for row in task) == list(range(200))
    assert in_order_in_one_task(found)
    if tasks <= 3:
        assert max(map(len, found)) < 200 / tasks + 60


@pytest.mark.parametrize(
    ("before", "tasks"),
    [(12, 4), (4, 4), (16, 8), (7, 1), (8, 8)],
)
def test_rows_of_a_key_stay_in_order_when_the_number_of_partitions_is_changed(
    folder: Folder, before: int, tasks: int
) -> None:
    """A reader that was away reads rows from before and behind the change in one epoch: with 12 and 8 partitions four
    tasks can share them.
    """
    first = Writer(folder, ChannelKey(column="account", partitions=before))
    first.publish(0, ACCOUNTS)
    second = Writer(folder)
    second.number = first.number
    second.publish(1, ACCOUNTS)
    found = read(folder, shared_by_tasks(second.sink.log.between({}, second.sink.log.ends, ""), 50))
    assert len(found) == tasks
    assert in_order_in_one_task(found)


@pytest.mark.parametrize("key", [None, ChannelKey(column="number", partitions=8)], ids=["unkeyed", "another column"])
def test_rows_of_a_key_stay_in_order_when_the_column_is_changed(folder: Folder, key: ChannelKey | None) -> None:
    first = Writer(folder, key)
    first.publish(0, ACCOUNTS)
    second = Writer(folder)
    second.number = first.number
    second.publish(1, ACCOUNTS)
    found = read(folder, shared_by_tasks(second.sink.log.between({}, second.sink.log.ends, ""), 50))
    assert len(found) == 1
    assert in_order_in_one_task(found)
    later = shared_by_tasks(second.sink.log.between(first.sink.log.ends, second.sink.log.ends, ""), 50)
    assert len(later) == 8


def test_an_epoch_that_was_prepared_before_a_change_is_published_as_it_was_parted(folder: Folder) -> None:
    """The driver was killed behind its decision; the next one has another number of partitions, and commits it."""
    before = Writer(folder, ChannelKey(column="account", partitions=3))
    decided = before.prepared(0, 0, ACCOUNTS)
    after = Writer(folder)
    assert [each.outcome for each in after.sink.commit([decided])] == [Outcome.COMMITTED]
    assert [each.outcome for each in before.sink.commit([decided])] == [Outcome.ALREADY]
    found = ChannelLog(folder).between({}, ChannelLog(folder).ends, "")
    assert {each.key for each in found} == {ChannelKey(column="account", partitions=3)}


def test_rows_in_flight_of_an_older_generation_come_before_those_of_the_next_one(folder: Folder) -> None:
    writer = Writer(folder)
    writer.publish(0, ACCOUNTS)
    barrier = dict(writer.sink.log.ends)
    writer.publish(1, ACCOUNTS)  # of the timeline that the restore gives up
    writer.publish(0, ACCOUNTS, generation=2)
    new = {part: end for part, end in writer.sink.log.ends.items() if part.startswith("orders.2.")}
    found = read(folder, shared_by_tasks(writer.sink.log.between({}, {**new, **barrier}, ""), 50))
    assert sum(map(len, found)) == 160
    assert len(found) == 8
    assert in_order_in_one_task(found)


def test_a_reader_that_is_added_later_begins_at_the_oldest_row_of_each_part(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChannelLog.__init__, "__defaults__", (1,))
    writer = Writer(folder)
    writer.publish(0, ACCOUNTS)
    first = dict(writer.sink.log.ends)
    writer.publish(1, ACCOUNTS[:1])
    writer.sink.log.trim(writer.sink.log.ends)
    writer.publish(2, ACCOUNTS[1:2])
    sink = ChannelSink("orders", folder, key=EIGHT)
    begin = sink.begin_of(1)
    assert set(begin) == set(first)
    found = read(folder, sink.shares(begin, sink.readable(), 50, ""))
    assert {row["account"] for task in found for row in task} <= set(ACCOUNTS[:2])
    assert sink.begin_of(2) == {"orders.2.0": 0}


def test_rows_of_a_journal_that_is_gone_are_lost_and_nothing_of_the_epoch_is_published(folder: Folder) -> None:
    writer = Writer(folder)
    tasks = [writer.prepared(0, task, ACCOUNTS) for task in range(2)]
    journals = msgspec.json.decode(tasks[1].handle["journals"], type=dict[int, JournalRef])
    (rows_folder(folder, IDENTITY.job_id, 1) / journals[3].name).local().unlink()
    assert [each.outcome for each in writer.sink.commit(tasks)] == [Outcome.RETRY, Outcome.LOST]
    assert writer.sink.log.ends == {}


def test_the_digest_of_a_transaction_covers_every_partition(folder: Folder) -> None:
    """The same accounts, and one row in another partition."""
    one, other = Writer(folder), Writer(folder, ChannelKey(column="account", partitions=9))
    digests = {each.prepared(0, 0, ACCOUNTS).digest for each in (one, other, Writer(folder))}
    assert len(digests) == 2


def test_an_attempt_that_fails_leaves_no_file(folder: Folder) -> None:
    transaction = begun(Writer(folder).sink, attempt_of())
    transaction.write(pa.RecordBatch.from_pylist([{"account": each, "number": 0} for each in ACCOUNTS], schema=SCHEMA))
    transaction.abort()
    assert [path for path in Path(folder.path).rglob("*") if path.is_file()] == []


def test_a_channel_says_what_it_is_parted_by() -> None:
    sink = EmbeddedChannel("account").sink("orders", Folder.of("/job/channels/orders"), None)
    described = sink.describe()
    assert ChannelSink.told(described) == "channel /job/channels/orders, 8 partitions by account"
    assert ChannelSink.from_description("orders", described, {}, "exactly-once").describe() == described
