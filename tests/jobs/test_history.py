"""The history of checkpoints: the newest thousand, in a handful of files, over kills and restarts."""

from __future__ import annotations

import time
from pathlib import Path

from tidegate.operate.checkpoints_history import ENTRIES_KEPT, CheckpointsHistory, DoneCheckpoint, read_checkpoints
from tidegate.storages.hdfs.publish import TEMPORARY_SUFFIX


def done(epoch: int) -> DoneCheckpoint:
    return DoneCheckpoint(query="query", epoch=epoch, run=1, at=float(epoch), duration_ms=5.0, rows=3)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "history" / "checkpoints").iterdir())


def epochs(folder: Path) -> list[int]:
    return [each.epoch for each in read_checkpoints(folder)]


def test_ten_thousand_epochs_leave_the_newest_thousand_in_few_files(tmp_path: Path):
    history = CheckpointsHistory(tmp_path)
    begun = time.process_time()
    for first in range(0, 10_000, 20):
        history.add([done(epoch) for epoch in range(first, first + 20)])
    assert time.process_time() - begun < 2.0
    assert epochs(tmp_path) == list(range(9_999, 9_999 - ENTRIES_KEPT, -1))
    assert len(files(tmp_path)) <= 5
    assert sum(file.stat().st_size for file in files(tmp_path)) < 300_000


def test_many_restarts_leave_few_files_and_lose_nothing(tmp_path: Path):
    for epoch in range(1_500):
        CheckpointsHistory(tmp_path).add([done(epoch)])
    assert epochs(tmp_path) == list(range(1_499, 499, -1))
    assert len(files(tmp_path)) <= 5


def test_a_line_that_a_kill_cut_short_is_left_out_and_spoils_no_other(tmp_path: Path):
    CheckpointsHistory(tmp_path).add([done(0), done(1)])
    with files(tmp_path)[-1].open("ab") as file:
        file.write(b'{"query":"query","epo')
    assert epochs(tmp_path) == [1, 0]
    CheckpointsHistory(tmp_path).add([done(2)])
    assert epochs(tmp_path) == [2, 1, 0]


def test_a_batch_larger_than_a_file_is_whole(tmp_path: Path):
    history = CheckpointsHistory(tmp_path)
    history.add([done(0)])
    history.add([done(epoch) for epoch in range(1, 900)])
    assert epochs(tmp_path) == list(range(899, -1, -1))


def test_the_newest_come_first_and_no_more_than_asked_for(tmp_path: Path):
    assert read_checkpoints(tmp_path) == []
    CheckpointsHistory(tmp_path).add([done(epoch) for epoch in range(600)])
    assert [each.epoch for each in read_checkpoints(tmp_path, at_most=3)] == [599, 598, 597]


def test_what_a_killed_driver_was_writing_goes_when_the_next_one_begins(tmp_path: Path):
    CheckpointsHistory(tmp_path).add([done(0)])
    [file] = files(tmp_path)
    file.with_name(f".2.jsonl.b98be1c3{TEMPORARY_SUFFIX}").write_bytes(b"{")
    CheckpointsHistory(tmp_path)
    assert files(tmp_path) == [file]
