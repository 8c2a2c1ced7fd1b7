"""Keys of the Redis sink: forms of rows, names, deletions, expiry, and what a start refuses."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest

from tests.support.redis import PASSWORD, RedisCluster, RedisServer
from tests.support.staged import plan
from tidegate.core.errors import TidegateError
from tidegate.core.records import Committable, Outcome
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.redis.names import KeyNames
from tidegate.sinks.redis.sink import RedisSink
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.stamps import numbers_of, place_of_epoch
from tidegate.testing.contract import IDENTITY, attempt_of

Rows = Sequence[dict[str, Any]]
KEYED = pa.schema([("k", pa.int64()), ("v", pa.string()), ("gone", pa.bool_())])


@dataclasses.dataclass(frozen=True)
class Place:
    """A prefix on a server."""

    server: RedisServer
    prefix: str

    def sink(self, **options: Any) -> RedisSink:
        given: dict[str, Any] = {"prefix": self.prefix, "key": "k", "options": {"password": PASSWORD}, **options}
        return RedisSink("out", self.server.url, **given)

    def rows(self) -> dict[str, Any]:
        """The rows by their key."""
        found = {name.removeprefix(f"{self.prefix}:"): name for name in self.names() if ":_tidegate" not in name}
        with self.server.client() as client:
            return {key: _value_of(client, name) for key, name in sorted(found.items())}

    def names(self) -> list[str]:
        with self.server.client() as client:
            return sorted(client.scan_iter(f"{self.prefix}*"))


def _value_of(client: Any, name: str) -> Any:
    if client.type(name) == "string":
        return client.get(name)
    return {field: value for field, value in client.hgetall(name).items() if field != "_tidegate"}


@pytest.fixture
def place(redis_server: RedisServer) -> Place:
    return Place(redis_server, redis_server.prefix())


def prepared(
    sink: TwoPhaseSink, rows: Rows, schema: pa.Schema = KEYED, *, epoch: int = 0, task: int = 0, run: int = 1
) -> Committable:
    assert sink.begin_run(IDENTITY, run, attempt_of(run=run).run_token) is None
    transaction = sink.begin(attempt_of(epoch=epoch, task=task, run=run))
    try:
        transaction.write(pa.RecordBatch.from_pylist(list(rows), schema=schema))
        committable = transaction.pre_commit()
    except BaseException:
        transaction.abort()
        raise
    assert committable is not None
    return committable


def row(key: int, word: str | None = None, *, gone: bool | None = False) -> dict[str, Any]:
    return {"k": key, "v": word, "gone": gone}


# --- forms ---------------------------------------------------------------------------------------------------


def test_a_row_is_a_hash_with_the_fields_that_it_has(place: Place) -> None:
    schema = pa.schema(
        [
            ("k", pa.string()),
            ("yes", pa.bool_()),
            ("number", pa.float64()),
            ("price", pa.decimal128(6, 2)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("raw", pa.binary()),
            ("list", pa.list_(pa.int64())),
            ("part", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ]
    )
    moment = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone.utc)
    full = {
        "k": "ü:{x}",
        "yes": True,
        "number": 0.5,
        "price": Decimal("1.50"),
        "day": datetime.date(2026, 1, 31),
        "at": moment,
        "raw": b"bytes",
        "list": [1, 2],
        "part": {"a": 1, "b": None},
    }
    sink = place.sink()
    assert sink.check(plan(schema)) == []
    prepared(sink, [full, {"k": "empty"}], schema)
    assert place.rows() == {
        "empty": {"k": "empty"},
        "ü:{x}": {
            "k": "ü:{x}",
            "yes": "true",
            "number": "0.5",
            "price": "1.50",
            "day": "2026-01-31",
            "at": "2026-01-31T12:00:00.000000Z",
            "raw": "bytes",
            "list": "[1,2]",
            "part": '{"a":1}',
        },
    }


def test_a_row_replaces_all_fields_of_the_earlier_one(place: Place) -> None:
    sink = place.sink()
    prepared(sink, [row(1, "old"), row(2, "old")], epoch=0)
    prepared(sink, [row(1), row(2, "new")], epoch=1)
    assert place.rows() == {"1": {"k": "1", "gone": "false"}, "2": {"k": "2", "v": "new", "gone": "false"}}


def test_a_row_is_a_text_of_json(place: Place) -> None:
    prepared(place.sink(format="json"), [row(1, "é"), row(1, "last")])
    assert {key: json.loads(value) for key, value in place.rows().items()} == {
        "1": {"k": 1, "v": "last", "gone": False}
    }


def test_the_columns_of_a_key_never_make_one_name_of_two_keys(place: Place) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    rows = [{"a": "x:y", "b": "z"}, {"a": "x", "b": "y:z"}, {"a": "x%3Ay", "b": "z"}]
    prepared(place.sink(key=["a", "b"]), rows, schema)
    assert list(place.rows()) == ["x%253Ay:z", "x%3Ay:z", "x:y%3Az"]


@pytest.mark.parametrize("numbers", [(0, 0), (1, 9), (1, 10), (2, 0), (10, 5), (123456789, 10**12)])
def test_places_are_ordered_as_their_numbers(numbers: tuple[int, int]) -> None:
    mine = place_of_epoch(*numbers)
    assert numbers_of(mine) == list(numbers)
    for other in ((0, 0), (1, 9), (1, 10), (2, 0), (10, 5), (123456789, 10**12)):
        assert (mine < place_of_epoch(*other)) is (numbers < other)


def test_many_rows_go_in_several_scripts_and_keep_their_order(place: Place) -> None:
    rows = [row(number % 700, f"turn {number // 700}") for number in range(5_000)]
    prepared(place.sink(), rows)
    found = place.rows()
    assert len(found) == 700
    assert found["0"]["v"] == "turn 7"
    assert found["699"]["v"] == "turn 6"


# --- deletions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["hash", "json"])
def test_a_deleted_key_does_not_come_back_by_an_older_row(place: Place, format_: str) -> None:
    sink = place.sink(deleted="gone", format=format_)
    prepared(sink, [row(1, "a"), row(2, "b")], epoch=0)
    late = sink.begin(attempt_of(epoch=0, task=0, task_attempt=5))
    committable = prepared(sink, [row(1, gone=True), row(2, "kept", gone=None), row(3, gone=True)], epoch=1)
    late.write(pa.RecordBatch.from_pylist([row(1, "old"), row(2, "old"), row(3, "old")], schema=KEYED))
    assert list(place.rows()) == ["2"]
    assert "kept" in str(place.rows()["2"])
    sink.commit([committable])
    late_again = sink.begin(attempt_of(epoch=1, task=0, task_attempt=6))
    with pytest.raises(TidegateError, match="TG-EPOCH-FINISHED"):
        late_again.write(pa.RecordBatch.from_pylist([row(1, "old")], schema=KEYED))
    prepared(sink, [row(1, "again")], epoch=2)
    assert list(place.rows()) == ["1", "2"]


def test_stamps_of_deleted_keys_stay_until_their_epoch_is_finished(place: Place) -> None:
    sink = place.sink(deleted="gone")
    marks = f"{place.prefix}:_tidegate:deleted"
    prepared(sink, [row(1, gone=True)], epoch=0)
    prepared(sink, [row(2, gone=True)], epoch=1)
    with place.server.client() as client:
        assert client.hlen(marks) == 2
        sink.clean(IDENTITY, 0)
        assert client.hkeys(marks) == [f"{place.prefix}:2"]
        sink.clean(IDENTITY, 1)
        assert client.hlen(marks) == 0
        fields = client.hkeys(f"{place.prefix}:_tidegate")
    assert not [field for field in fields if field.startswith("prepared ")], "marks of finished epochs are removed"


def test_stamps_of_many_deleted_keys_are_removed(place: Place) -> None:
    sink = place.sink(deleted="gone")
    prepared(sink, [row(number, gone=True) for number in range(2_000)])
    sink.clean(IDENTITY, 0)
    assert place.names() == [f"{place.prefix}:_tidegate"]


def test_before_an_epoch_is_finished_nothing_is_refused_as_finished(place: Place) -> None:
    """A first start cleans up through epoch -1."""
    sink = place.sink()
    sink.clean(IDENTITY, -1)
    prepared(sink, [row(1, "x")])
    sink.clean(IDENTITY, -1)
    prepared(sink, [row(1, "y")])
    assert place.rows()["1"]["v"] == "y"


# --- expiry ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["hash", "json"])
def test_a_row_expires_behind_its_last_write(place: Place, format_: str) -> None:
    prepared(place.sink(format=format_), [row(1, "stays")])
    sink = place.sink(format=format_, expire=datetime.timedelta(seconds=60))
    prepared(sink, [row(2, "goes")])
    with place.server.client() as client:
        left = {name: client.pttl(name) for name in place.names() if name.endswith((":1", ":2"))}
    assert all((0 < each <= 60_000) is name.endswith(":2") for name, each in left.items()), left
    assert len(left) == (2 if format_ == "hash" else 4)
    brief = place.sink(format=format_, expire=0.001)
    prepared(brief, [row(2, "gone at once")], epoch=1)
    while "2" in place.rows():
        pass
    prepared(sink, [row(2, "back")], epoch=2)
    assert "back" in str(place.rows()["2"])


# --- what is refused ---------------------------------------------------------------------------------------


def test_a_key_that_holds_another_kind_of_value_is_refused(place: Place) -> None:
    with place.server.client() as client:
        client.rpush(f"{place.prefix}:1", "a list")
        client.set(f"{place.prefix}:2", "a text")
    for format_, key in (("hash", 1), ("json", 1), ("hash", 2)):
        with pytest.raises(RowRefused) as raised:
            prepared(place.sink(format=format_), [row(key, "x")])
        assert f"{place.prefix}:{key}, a " in raised.value.found
    prepared(place.sink(format="json"), [row(2, "x")])  # a text that nobody has stamped is taken over


def test_rows_without_a_key_of_their_own_are_refused(place: Place) -> None:
    schema = pa.schema([("k", pa.string())])
    batch = pa.RecordBatch.from_pylist([{"k": None}, {"k": "_tidegate:deleted"}, {"k": "fine"}], schema=schema)
    assert [each.row for each in place.sink().refused(batch)] == [0]
    assert [each.row for each in place.sink().refused(batch.slice(1))] == [0]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"prefix": "a{b"}, "TG-OPTION-UNKNOWN"),
        ({"prefix": ""}, "TG-OPTION-UNKNOWN"),
        ({"expire": 0}, "TG-OPTION-UNKNOWN"),
        ({"key": []}, "TG-KEY-COLUMN"),
        ({"key": "absent"}, "TG-KEY-COLUMN"),
        ({"deleted": "k"}, "TG-KEY-COLUMN"),
        ({"deleted": "v"}, "TG-SCHEMA-MISMATCH"),
    ],
)
def test_a_start_refuses_options_that_do_not_fit(place: Place, options: dict[str, Any], code: str) -> None:
    found = place.sink(**options).check(plan(KEYED))
    assert code in [each.code for each in found]
    assert all(each.next_step for each in found)


def test_a_start_refuses_rows_that_no_key_can_hold(place: Place) -> None:
    nested = pa.schema([("k", pa.list_(pa.int64())), ("_tidegate", pa.string()), ("t", pa.duration("us"))])
    assert [each.code for each in place.sink().check(plan(nested))] == ["TG-SCHEMA-MISMATCH"] * 3


def test_a_reader_finds_the_bucket_of_a_key() -> None:
    names = KeyNames("orders", 16)
    assert names.rows(names.bucket_of(b"42")) == b"{orders.%d}:" % (crc32(b"42") % 16)
    assert RedisSink("out", "redis://h", prefix="orders", key="k", buckets=16).bucket_of("42") == crc32(b"42") % 16


@pytest.mark.more
def test_a_cluster_needs_buckets_and_keeps_their_number(redis_cluster: RedisCluster, redis_server: RedisServer) -> None:
    place = Place(redis_cluster.servers[0], redis_server.prefix())
    (violation, *_) = place.sink().check(plan(KEYED))
    assert (violation.code, "buckets=N" in violation.expected) == ("TG-SINK-UNUSABLE", True)
    sink = place.sink(buckets=6)
    assert sink.check(plan(KEYED)) == []
    sink.open(plan(KEYED))
    assert sink.check(plan(KEYED)) == []
    (violation,) = place.sink(buckets=3).check(plan(KEYED))
    assert (violation.code, violation.found) == ("TG-SCHEMA-MISMATCH", "buckets=3")
    (violation,) = Place(redis_server, place.prefix).sink(buckets=6).check(plan(KEYED))
    assert (violation.code, "leave buckets= out" in violation.next_step) == ("TG-SINK-UNUSABLE", True)


@pytest.mark.more
def test_a_cluster_records_an_epoch_in_each_bucket(redis_cluster: RedisCluster, redis_server: RedisServer) -> None:
    place = Place(redis_cluster.servers[0], redis_server.prefix())
    sink = place.sink(buckets=6)
    committables = [prepared(sink, [row(number, "x") for number in range(60)], epoch=epoch) for epoch in range(2)]
    assert [answer.outcome for answer in sink.commit(committables[:1])] == [Outcome.COMMITTED]
    assert [answer.outcome for answer in sink.commit(committables[1:])] == [Outcome.COMMITTED]
    position = sink.position(IDENTITY)
    assert position is not None
    assert position.epoch == 1
    with redis_cluster.client() as client:
        assert len(list(client.scan_iter(f"{{{place.prefix}.*:_tidegate"))) == 6
        client.delete(f"{{{place.prefix}.3}}:_tidegate")
    assert sink.position(IDENTITY) is None, "one server has lost its evidence"
