"""What belongs to Spark's logs and what only lies beside them."""

from __future__ import annotations

import pytest

from tidegate.checkpoints import spark_layout
from tidegate.checkpoints.spark_layout import checksum_of, entry_numbers
from tidegate.storages.checkpoint_files import is_temporary


def test_entries_are_numbers_in_the_order_of_numbers():
    assert entry_numbers(["10", "9", "0"]) == [0, 9, 10]


@pytest.mark.parametrize(
    "name", [".9.crc", ".9.3f-4a.tmp", ".aside-9-0", ".9.5ac0ffee.tidegate.tmp", "9.compact", "09", "-9", "+9", "²", ""]
)
def test_what_is_not_a_number_is_no_entry(name: str):
    assert entry_numbers([name]) == []


def test_the_names_are_those_of_spark():
    assert spark_layout.offsets_entry(3) == "offsets/3"
    assert spark_layout.commits_entry(3) == "commits/3"
    assert spark_layout.source_folder(1) == "sources/1"
    assert spark_layout.state_folder(operator=0, partition=7) == "state/0/7"


def test_the_checksum_of_a_file_lies_hidden_beside_it():
    assert checksum_of("offsets/3") == "offsets/.3.crc"
    assert checksum_of("metadata") == ".metadata.crc"


@pytest.mark.parametrize(
    ("name", "expected"),
    [(".3.b1-0.tmp", True), ("..3.b1-0.tmp.crc", True), (".3.crc", False), ("3", False), ("rows.tmp", False)],
)
def test_only_hidden_temporary_files_are_spark_s_unfinished_ones(name: str, expected: bool):
    assert is_temporary(name) is expected
