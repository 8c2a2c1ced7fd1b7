"""Entries of Spark's two logs: whole ones are read, torn ones are never taken for whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.spark_log import (
    canonical_state_ids,
    goes_back,
    parse_commits,
    parse_offsets,
    same_position,
    with_watermark,
)

OFFSETS = b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{"a":"b"}}\n{"logOffset":3}\n-'
COMMITS = b'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"1":[["x"],["y"]],"0":[["z"]]}}'


def test_an_offsets_entry() -> None:
    entry = parse_offsets(OFFSETS)
    assert entry is not None
    assert (entry.watermark_ms, entry.conf) == (5, {"a": "b"})
    assert entry.positions == ('{"logOffset":3}', None)


def test_a_commits_entry() -> None:
    entry = parse_commits(COMMITS)
    assert entry is not None
    assert entry.next_watermark_ms == 7
    assert entry.state_ids == canonical_state_ids({"0": [["z"]], "1": [["x"], ["y"]]})
    assert parse_commits(b'v1\n{"nextBatchWatermarkMs":0}') is not None


@given(st.integers(0, len(COMMITS) - 1))
def test_no_prefix_of_a_commits_entry_is_whole(length: int) -> None:
    assert parse_commits(COMMITS[:length]) is None


@given(st.integers(0, OFFSETS.index(b'\n{"logOffset"')))
def test_no_prefix_of_an_offsets_entry_without_positions_is_whole(length: int) -> None:
    assert parse_offsets(OFFSETS[:length]) is None


@pytest.mark.parametrize("data", [None, b"", b"v1", b"v3\n{}", b"v1\n[]", b"\xff", b"v1\n{}\n{"])
def test_what_is_missing_or_torn_is_no_entry(data: bytes | None) -> None:
    assert parse_offsets(data) is None
    assert parse_commits(data) is None


def test_a_due_epoch_has_the_same_positions_and_a_later_watermark() -> None:
    due = parse_offsets(with_watermark(OFFSETS, 70))
    whole = parse_offsets(OFFSETS)
    assert due is not None
    assert whole is not None
    assert (due.watermark_ms, due.positions, due.conf) == (70, whole.positions, whole.conf)


@pytest.mark.parametrize(
    ("before", "after", "back"),
    [
        (None, "1", False),
        ("1", None, True),
        ("5", "5", False),
        ("5", "4", True),
        ('{"logOffset":5}', '{"logOffset":4}', True),
        ('{"t":{"0":5,"1":2}}', '{"t":{"0":5,"1":3}}', False),
        ('{"t":{"0":5,"1":2}}', '{"t":{"0":6,"1":1}}', True),
        ('{"t":{"0":5,"1":2}}', '{"t":{"0":6}}', True),
        ('{"t":{"0":5}}', '{"t":{"0":5,"1":0}}', False),
        ('{"words.1.0":4}', '{"words.1.0":4,"words.2.0":2}', False),
        ('{"words.1.0":4,"words.2.0":2}', '{"words.1.0":4,"words.2.0":1}', True),
        ('{"words.1.0":4,"words.2.0":2}', '{"words.2.0":3}', True),
        ('"b"', '"a"', False),
        ("true", "false", False),
        ('{"a":2,"b":2}', '{"a":1,"b":1}', False),
        ('{"t":{"x":5}}', '{"t":{"x":4}}', False),
        ("[2]", "[1]", False),
    ],
)
def test_positions_go_back_only_where_their_order_is_known(before: str | None, after: str | None, back: bool) -> None:
    assert goes_back(before, after) is back


def test_positions_are_compared_as_values() -> None:
    assert same_position('{"a":1,"b":2}', '{ "b": 2, "a": 1 }')
    assert same_position(None, None)
    assert not same_position(None, "1")
    assert not same_position("nowhere", "1")


def test_a_list_of_files_goes_back_by_its_number_and_not_by_its_digest():
    earlier, later = '{"logOffset":2,"digest":"b"}', '{"logOffset":3,"digest":"a"}'
    assert goes_back(later, earlier)
    assert not goes_back(earlier, later)
