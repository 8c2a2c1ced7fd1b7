"""The history of checkpoints: the newest 10,000, in files of 200, and totals over all, over kills and restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tidegate.operate.checkpoints_history import ENTRIES_KEPT, CheckpointsHistory, read_checkpoints, read_totals
from tidegate.operate.done_checkpoint import DoneCheckpoint, TimedPhase
from tidegate.operate.epoch_totals import BOUNDS_MS
from tidegate.storages.hdfs.publish import TEMPORARY_SUFFIX
from tidegate.storages.local.storage import LocalStorage


def done(epoch: int) -> DoneCheckpoint:
    return DoneCheckpoint(
        query="query",
        epoch=epoch,
        run=1,
        at=float(epoch),
        duration_ms=5.0,
        rows=3,
        committed=2,
        phases=dict.fromkeys(TimedPhase, 12.25),
    )


def files(folder: Path) -> list[Path]:
    return sorted((folder / "history" / "checkpoints").iterdir())


def epochs(folder: Path) -> list[int]:
    return [each.epoch for each in read_checkpoints(folder)]


def test_twelve_thousand_epochs_leave_the_newest_ten_thousand_in_few_files(tmp_path: Path):
    history = CheckpointsHistory(tmp_path)
    begun = time.process_time()
    for first in range(0, 12_000, 50):
        history.add([done(epoch) for epoch in range(first, first + 50)])
    assert time.process_time() - begun < 4.0
    assert epochs(tmp_path) == list(range(11_999, 11_999 - ENTRIES_KEPT, -1))
    assert len(files(tmp_path)) <= 51
    assert max(file.stat().st_size for file in files(tmp_path)) < 80_000


def test_each_batch_writes_no_more_than_one_file_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written: list[int] = []
    note = LocalStorage.note

    def counted(storage: LocalStorage, name: str, data: bytes) -> None:
        written.append(len(data))
        note(storage, name, data)

    monkeypatch.setattr(LocalStorage, "note", counted)
    history = CheckpointsHistory(tmp_path)
    for epoch in range(1_000):
        history.add([done(epoch)])
    assert len(written) == 1_000
    assert max(written) < 80_000


def test_many_restarts_leave_few_files_and_lose_nothing(tmp_path: Path):
    for epoch in range(450):
        CheckpointsHistory(tmp_path).add([done(epoch)])
    assert epochs(tmp_path) == list(range(449, -1, -1))
    assert len(files(tmp_path)) == 3


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
    file.with_name(f".2.0.jsonl.b98be1c3{TEMPORARY_SUFFIX}").write_bytes(b"{")
    CheckpointsHistory(tmp_path)
    assert files(tmp_path) == [file]


@contextmanager
def files_read() -> Iterator[list[str]]:
    """The names of the files that the block reads."""
    names: list[str] = []
    peek = LocalStorage.peek

    def noted(storage: LocalStorage, name: str) -> bytes | None:
        names.append(name)
        return peek(storage, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStorage, "peek", noted)
        yield names


def test_a_part_of_the_history_opens_only_the_files_with_it(tmp_path: Path):
    CheckpointsHistory(tmp_path).add([done(epoch) for epoch in range(5_000)])
    with files_read() as newest:
        assert [each.epoch for each in read_checkpoints(tmp_path, 200)] == list(range(4_999, 4_799, -1))
    with files_read() as before:
        assert [each.epoch for each in read_checkpoints(tmp_path, 3, before=2_001)] == [2_000, 1_999, 1_998]
    with files_read() as since:
        assert [each.epoch for each in read_checkpoints(tmp_path, since=4_790)] == list(range(4_999, 4_789, -1))
    with files_read() as behind:
        assert [each.number for each in read_checkpoints(tmp_path, behind=4_990)] == list(range(5_000, 4_990, -1))
    with files_read() as totals:
        assert read_totals(tmp_path)["query"].epochs == 5_000
    assert [len(each) for each in (newest, before, since, behind, totals)] == [1, 2, 2, 1, 1]


def test_the_totals_count_what_the_history_has_forgotten_over_restarts(tmp_path: Path):
    for first in range(0, 11_000, 1_000):
        CheckpointsHistory(tmp_path).add([done(epoch) for epoch in range(first, first + 1_000)])
    assert len(read_checkpoints(tmp_path)) == ENTRIES_KEPT
    totals = read_totals(tmp_path)["query"]
    assert (totals.epochs, totals.rows, totals.committed) == (11_000, 33_000, 22_000)
    assert (totals.last.epoch, totals.last.number) == (10_999, 11_000)
    assert (sum(totals.took.counts), totals.took.counts[0], totals.took.sum_ms) == (11_000, 11_000, 55_000.0)
    assert totals.phases[TimedPhase.SYNC].counts[BOUNDS_MS.index(25)] == 11_000


def test_each_query_has_its_own_totals_and_the_numbers_are_those_of_the_job(tmp_path: Path):
    rare = msgspec.structs.replace(done(0), query="rare", rows=100)
    CheckpointsHistory(tmp_path).add([done(0), rare, *(done(epoch) for epoch in range(1, 700))])
    totals = read_totals(tmp_path)
    assert {query: each.rows for query, each in totals.items()} == {"query": 2_100, "rare": 100}
    assert (totals["rare"].last.number, totals["query"].last.number) == (2, 701)


def test_the_history_of_an_older_release_is_read_and_counted_on(tmp_path: Path):
    folder = tmp_path / "history" / "checkpoints"
    folder.mkdir(parents=True)
    older = '{"query":"query","epoch":%d,"run":1,"at":%d,"duration_ms":5.0,"rows":3,"aborted":1,"redone":0}\n'
    for number in range(2):
        lines = [older % (epoch, epoch) for epoch in range(number * 250, number * 250 + 250)]
        (folder / f"{number + 7}.jsonl").write_text("".join(lines))
    assert read_checkpoints(tmp_path, 1)[0].phases == {}
    CheckpointsHistory(tmp_path).add([done(500)])
    assert epochs(tmp_path) == list(range(500, -1, -1))
    totals = read_totals(tmp_path)["query"]
    assert (totals.epochs, totals.aborted, totals.last.number) == (501, 500, 501)


def test_a_newest_file_that_a_power_loss_has_emptied_takes_no_older_totals_with_it(tmp_path: Path):
    CheckpointsHistory(tmp_path).add([done(epoch) for epoch in range(201)])
    max(files(tmp_path), key=lambda file: int(file.name.partition(".")[0])).write_bytes(b"")
    assert read_totals(tmp_path)["query"].epochs == 200
    CheckpointsHistory(tmp_path).add([done(201)])
    assert read_totals(tmp_path)["query"].epochs == 201
