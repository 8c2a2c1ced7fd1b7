"""Checkpoint folders as pyspark 4.2 and 4.3 write them: three epochs with data, and one without for the state."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tidegate.checkpoints.spark_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    checksum_of,
    commits_entry,
    entry_numbers,
    offsets_entry,
    source_folder,
    state_folder,
)
from tidegate.core.spark_log import OffsetsEntry, parse_commits, parse_offsets
from tidegate.storages.checkpoint_files import is_temporary
from tidegate.storages.local.storage import LocalStorage

EPOCHS = {"stateful": [0, 1, 2, 3], "stateless": [0, 1, 2]}
WATERMARKS_MS = [0, 1704067195000, 1704067255000, 1704067315000]
"""Ten seconds before the newest row of the epoch before; the last epoch is the one without data."""


@pytest.fixture(params=["4.2.0", "4.3.0"])
def version(request: pytest.FixtureRequest) -> Path:
    return Path(__file__).parent / f"spark-{request.param}"


@pytest.fixture
def stateful(version: Path) -> LocalStorage:
    return LocalStorage(version / "stateful")


@pytest.mark.parametrize("query", ["stateful", "stateless"])
def test_the_entries_of_both_logs_are_listed(version: Path, query: str):
    checkpoint = LocalStorage(version / query)
    for log in (OFFSETS, COMMITS):
        assert entry_numbers(checkpoint.list(log)) == EPOCHS[query]
        assert len(checkpoint.list(log)) == 2 * len(EPOCHS[query])  # the checksums beside them
    assert entry_numbers(checkpoint.list(source_folder(0))) == [0, 1, 2]


def test_the_folder_has_the_parts_that_are_known(version: Path):
    parts = {path.name for path in (version / "stateful").iterdir()}
    known = {OFFSETS, COMMITS, SOURCES, METADATA, checksum_of(METADATA), "state-files.txt"}
    assert parts == known


def test_every_entry_has_its_checksum_beside_it(stateful: LocalStorage):
    for entry in (offsets_entry(0), commits_entry(3), METADATA):
        assert stateful.read(checksum_of(entry)) is not None


def test_the_offsets_give_the_watermark_and_one_position_per_source(stateful: LocalStorage):
    entries = [parsed_offsets(stateful, epoch) for epoch in EPOCHS["stateful"]]
    assert [entry.watermark_ms for entry in entries] == WATERMARKS_MS
    positions = [entry.positions for entry in entries]
    assert positions == [(f'{{"logOffset":{number}}}',) for number in (0, 1, 2, 2)]
    assert entries[0].conf["spark.sql.shuffle.partitions"] == "2"


def test_the_commits_give_the_next_watermark_and_the_ids_that_name_the_state_files(stateful: LocalStorage):
    files = state_files(stateful)
    for epoch in EPOCHS["stateful"]:
        entry = parse_commits(stateful.read(commits_entry(epoch)))
        assert entry is not None
        assert entry.next_watermark_ms == (WATERMARKS_MS[1:] + WATERMARKS_MS[-1:])[epoch]
        ids = msgspec.json.decode(entry.state_ids or "")
        for partition, (state_id,) in enumerate(ids["0"]):
            assert f"{state_folder(0, partition)}/{epoch + 1}_{state_id}.changelog" in files


def test_a_query_without_state_has_no_ids(version: Path):
    checkpoint = LocalStorage(version / "stateless")
    for epoch in EPOCHS["stateless"]:
        entry = parse_commits(checkpoint.read(commits_entry(epoch)))
        assert entry is not None
        assert (entry.next_watermark_ms, entry.state_ids) == (0, None)


@pytest.mark.parametrize("query", ["stateful", "stateless"])
def test_every_cut_of_an_entry_is_seen_as_torn(version: Path, query: str):
    checkpoint = LocalStorage(version / query)
    for epoch in EPOCHS[query]:
        offsets, commits = checkpoint.read(offsets_entry(epoch)), checkpoint.read(commits_entry(epoch))
        assert offsets is not None
        assert commits is not None
        assert all(parse_offsets(offsets[:length]) is None for length in range(len(offsets)))
        assert all(parse_commits(commits[:length]) is None for length in range(len(commits)))


def test_no_finished_file_is_taken_for_a_temporary_one(stateful: LocalStorage):
    files = state_files(stateful)
    assert len(files) > 20
    assert all(file.startswith(f"{STATE}/0/") for file in files)
    assert not any(is_temporary(Path(file).name) for file in files)


def parsed_offsets(checkpoint: LocalStorage, epoch: int) -> OffsetsEntry:
    entry = parse_offsets(checkpoint.read(offsets_entry(epoch)))
    assert entry is not None
    return entry


def state_files(checkpoint: LocalStorage) -> list[str]:
    return checkpoint.path("state-files.txt").read_text().splitlines()
