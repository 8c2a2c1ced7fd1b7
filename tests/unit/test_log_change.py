"""What a restore writes into the entries of Spark's log, and what it leaves as it was."""

from __future__ import annotations

import json

import pytest

from tidegate.core.spark_log import parse_commits, parse_offsets
from tidegate.savepoints.log_change import (
    state_ids_of,
    with_next_watermark,
    with_operators,
    with_settings,
    with_sources,
    with_state_ids,
)

OFFSETS = b'v1\n{"batchWatermarkMs":7,"batchTimestampMs":9,"conf":{"a":"1","b":"2"}}\n{"logOffset":3}\n-\n12'
IDS = {0: [["left", "right"], ["more", "still"]]}
COMMITS = b'v2\n{"nextBatchWatermarkMs":8,"stateUniqueIds":{"0":[["left","right"],["more","still"]]}}'


def test_sources_take_their_positions_along_and_new_ones_begin_anew() -> None:
    entry = parse_offsets(with_sources(OFFSETS, (2, None, 0, 1)))
    assert entry is not None
    assert (entry.positions, entry.watermark_ms) == (("12", None, '{"logOffset":3}', None), 7)


@pytest.mark.parametrize("end", [0, 2, 20])
def test_an_entry_that_is_torn_gives_no_sources(end: int) -> None:
    with pytest.raises(ValueError, match="torn"):
        with_sources(OFFSETS[:end], (0,))


def test_settings_in_force_are_replaced_one_by_one() -> None:
    entry = parse_offsets(with_settings(OFFSETS, {"b": "3", "c": "4"}))
    assert entry is not None
    assert entry.conf == {"a": "1", "b": "3", "c": "4"}
    assert entry.positions == ('{"logOffset":3}', None, "12")


def test_state_in_other_files_has_their_ids_or_none_in_an_entry_of_the_older_version() -> None:
    assert state_ids_of(COMMITS) == IDS
    other = {0: [["one", "two"]]}
    assert state_ids_of(with_state_ids(COMMITS, other)) == other
    plain = with_state_ids(COMMITS, None)
    assert (plain.split(b"\n")[0], state_ids_of(plain)) == (b"v1", {})
    entry = parse_commits(plain)
    assert entry is not None
    assert entry.next_watermark_ms == 8


def test_ids_of_state_go_with_the_numbers_of_their_operators() -> None:
    two = with_state_ids(COMMITS, {0: [["zero"]], 1: [["one"]], 2: [["two"]]})
    moved = with_operators(two, {0: 1, 1: 0})
    assert state_ids_of(moved) == {0: [["one"]], 1: [["zero"]]}
    assert json.loads(moved.split(b"\n")[1])["nextBatchWatermarkMs"] == 8
    plain = with_state_ids(COMMITS, None)
    assert with_operators(plain, {0: 1}) == plain


def test_the_next_watermark_is_replaced_and_the_ids_stay() -> None:
    changed = with_next_watermark(COMMITS, 99)
    assert json.loads(changed.split(b"\n")[1])["nextBatchWatermarkMs"] == 99
    assert state_ids_of(changed) == IDS
