"""How far a query of the demo is, by its files."""

from __future__ import annotations

from pathlib import Path

from tidegate.testing.demo.footprint import Footprint


def test_two_files_in_one_epoch_are_seen(tmp_path: Path) -> None:
    query = _through(tmp_path, [0, 2, 3])
    assert query.complete() == 3
    assert query.files_through() == 4
    assert query.files_to == {0: 1, 1: 3, 2: 4}
    assert query.merged() == 1


def test_what_spark_has_purged_stays_known(tmp_path: Path) -> None:
    query = _through(tmp_path, [0, 1])
    query.complete()
    (tmp_path / "commits" / "0").unlink()
    (tmp_path / "offsets" / "0").unlink()
    assert query.files_through() == 2
    assert query.files_to == {0: 1, 1: 2}


def test_nothing_is_through_before_the_first_epoch(tmp_path: Path) -> None:
    assert _through(tmp_path, []).files_through() == 0


def _through(folder: Path, newest_files: list[int]) -> Footprint:
    """A query of plain Spark with one complete epoch for each number: the newest file that it took."""
    for log in ("offsets", "commits"):
        (folder / log).mkdir()
    for epoch, newest in enumerate(newest_files):
        metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
        (folder / "offsets" / str(epoch)).write_text(f'v1\n{metadata}\n{{"logOffset":{newest}}}')
        (folder / "commits" / str(epoch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return Footprint("lines", folder, None, folder)
