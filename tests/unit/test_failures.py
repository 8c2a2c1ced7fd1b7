"""The exception history: newest first, bounded, and in the way of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.operate.failures import FAILURES_KEPT, Failure, add_failure, read_failures


def failure(number: int, what: str = "it broke") -> Failure:
    return Failure(
        at=float(number),
        code="TG-EPOCH-FAILED",
        what=what,
        where="job words, query counts",
        remedy="start again",
        query="counts",
        epoch=number,
        run=1,
        restart_in_seconds=1.0,
    )


def test_a_job_that_never_failed_has_no_history(tmp_path: Path):
    assert read_failures(tmp_path / "never") == []
    assert not (tmp_path / "never").exists()


def test_the_newest_failure_comes_first(tmp_path: Path):
    for number in range(3):
        add_failure(tmp_path, failure(number))
    assert read_failures(tmp_path) == [failure(2), failure(1), failure(0)]


def test_a_hundred_failures_are_kept_and_no_more(tmp_path: Path):
    for number in range(FAILURES_KEPT + 5):
        add_failure(tmp_path, failure(number))
    assert [each.epoch for each in read_failures(tmp_path)] == list(range(FAILURES_KEPT + 4, 4, -1))
    assert len(list((tmp_path / "history/failures").iterdir())) == FAILURES_KEPT


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
    assert read_failures(tmp_path) == [failure(1)]


def test_a_copy_that_somebody_has_put_beside_a_failure_is_passed_over(tmp_path: Path):
    add_failure(tmp_path, failure(0))
    (tmp_path / "history/failures/000000000001 (copy).json").write_bytes(b"{")
    add_failure(tmp_path, failure(1))
    assert read_failures(tmp_path) == [failure(1), failure(0)]
