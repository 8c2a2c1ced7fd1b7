"""The exception history: newest first, bounded, and in the way of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tidegate.core.errors import TidegateError
from tidegate.operate.failures import FAILURES_KEPT, Failure, add_failure, newest_failure, read_failures


def failure(epoch: int, what: str = "it broke") -> Failure:
    return Failure(
        at=float(epoch),
        code="TG-EPOCH-FAILED",
        what=what,
        where="job words, query counts",
        remedy="start again",
        query="counts",
        epoch=epoch,
        run=1,
        restart_in_seconds=1.0,
    )


def stored(number: int, place: int, before: int) -> Failure:
    """The failure as the history gives it: at its place, behind `before` others that can be read."""
    return replace(failure(number), number=place, restarts=before + 1, of_epochs=before + 1)


def test_a_job_that_never_failed_has_no_history(tmp_path: Path):
    assert read_failures(tmp_path / "never") == []
    assert not (tmp_path / "never").exists()


def test_the_newest_failure_comes_first(tmp_path: Path):
    for number in range(3):
        add_failure(tmp_path, failure(number))
    assert read_failures(tmp_path) == [stored(2, 3, 2), stored(1, 2, 1), stored(0, 1, 0)]


def test_a_hundred_failures_are_kept_and_no_more(tmp_path: Path):
    for number in range(FAILURES_KEPT + 5):
        add_failure(tmp_path, failure(number))
    assert [each.epoch for each in read_failures(tmp_path)] == list(range(FAILURES_KEPT + 4, 4, -1))
    assert len(list((tmp_path / "history/failures").iterdir())) == FAILURES_KEPT


def test_the_newest_failure_has_the_counts_of_all_also_of_those_that_are_gone(tmp_path: Path):
    assert newest_failure(tmp_path) is None
    for number in range(FAILURES_KEPT + 5):
        each = failure(number)
        add_failure(tmp_path, each if number % 5 else replace(each, restart_in_seconds=None, epoch=None))
    newest = newest_failure(tmp_path)
    assert newest is not None
    assert (newest.number, newest.restarts, newest.of_epochs) == (105, 84, 84)


def test_a_long_text_is_cut(tmp_path: Path):
    add_failure(tmp_path, failure(0, "x" * 1_000_000))
    assert read_failures(tmp_path)[0].what == "x" * 4_000


def test_a_torn_file_is_named_and_does_not_keep_others_from_being_added(tmp_path: Path):
    add_failure(tmp_path, failure(0))
    (tmp_path / "history/failures/000000000001.json").write_bytes(b"{")
    add_failure(tmp_path, failure(1))
    with pytest.raises(TidegateError, match=r"000000000001\.json") as caught:
        read_failures(tmp_path)
    assert caught.value.code == "TG-RECORD-CORRUPT"
    (tmp_path / "history/failures/000000000001.json").unlink()
    assert read_failures(tmp_path) == [stored(1, 2, 0)]


def test_a_copy_that_somebody_has_put_beside_a_failure_is_passed_over(tmp_path: Path):
    add_failure(tmp_path, failure(0))
    (tmp_path / "history/failures/000000000001 (copy).json").write_bytes(b"{")
    add_failure(tmp_path, failure(1))
    assert read_failures(tmp_path) == [stored(1, 2, 1), stored(0, 1, 0)]
