"""The milestones of a job: bounded, in the way of nothing, and each told once."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from tests.unit.test_failures import failure
from tidegate.core.errors import TidegateError
from tidegate.core.happenings import RecordsSkipped
from tidegate.operate.beat import Beat, JobState, write_beat
from tidegate.operate.milestones import (
    MILESTONES_KEPT,
    SKIPS_KEPT,
    Milestone,
    MilestoneKind,
    add_milestones,
    beside_failures,
    read_milestones,
    savepoint_taken,
)
from tidegate.savepoints.folder import Savepoint
from tidegate.spark.live_job import LiveJob
from tidegate.spark.milestones import MilestoneWriter
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

KILL, START, SAVEPOINT, SKIP, STOP, FAILURE = (
    MilestoneKind.KILL,
    MilestoneKind.START,
    MilestoneKind.SAVEPOINT,
    MilestoneKind.SKIP,
    MilestoneKind.STOP,
    MilestoneKind.FAILURE,
)


def milestone(at: float, kind: MilestoneKind = START) -> Milestone:
    return Milestone(at=at, kind=kind, text="")


def test_the_newest_two_hundred_stay_and_a_torn_line_spoils_no_other(tmp_path: Path):
    assert read_milestones(tmp_path) == []
    for at in range(MILESTONES_KEPT + 5):
        add_milestones(tmp_path, [milestone(at)])
    assert [each.at for each in read_milestones(tmp_path)] == list(range(MILESTONES_KEPT + 4, 4, -1))
    file = tmp_path / "history/milestones.jsonl"
    file.write_bytes(b'{"at":3,"ki\n' + file.read_bytes())
    assert [each.at for each in read_milestones(tmp_path)] == list(range(MILESTONES_KEPT + 4, 4, -1))


def test_skips_push_nothing_else_out(tmp_path: Path):
    add_milestones(tmp_path, [milestone(0.0)])
    add_milestones(tmp_path, [milestone(at, SKIP) for at in range(1, 400)])
    assert [each.kind for each in read_milestones(tmp_path)] == [*[SKIP] * SKIPS_KEPT, START]


def test_a_text_is_kept_short_and_in_utf_8(tmp_path: Path):
    add_milestones(
        tmp_path, [replace(milestone(0.0), text="x" * 2_000_000 + "\nmore"), savepoint_taken("/a\udcff", 1.0)]
    )
    assert [each.text for each in read_milestones(tmp_path)] == ["a savepoint in /a?", "x" * 500]


def test_a_storage_that_is_away_stops_neither_a_job_nor_a_savepoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A note of a milestone writes nothing: only the thread of the history does."""
    writer = opened(tmp_path, _Job())
    with monkeypatch.context() as away:
        away.setattr(LocalStorage, "note", refuse)
        away.setattr(LocalStorage, "peek", refuse)
        writer.saved(cast("Savepoint", _Saved(tmp_path / "one")))
        writer.happened("query", 1, RecordsSkipped(3, "lines", "topic lines: partition 0 to 7 (2 records lost)"))
    writer.last(None)
    assert kinds(tmp_path) == [START, SAVEPOINT, SKIP, STOP]


def refuse(*_: object) -> bytes:
    raise OSError(28, "No space left on device")


def test_a_kill_that_the_supervisor_has_recorded_is_told_once():
    kill, start = milestone(10.0, KILL), milestone(20.0)
    died = replace(failure(1), at=11.0, code="TG-DRIVER-DIED")
    assert beside_failures([kill, start], [died]) == [start]
    assert beside_failures([kill, start], []) == [kill, start]
    of_a_start_that_was_refused = [replace(failure(1), at=15.0, code="TG-SETTINGS-CLASH")]
    assert beside_failures([kill, start], of_a_start_that_was_refused) == [kill, start]
    of_another_driver = [replace(died, at=9.0), replace(died, at=21.0)]
    assert beside_failures([kill, start], of_another_driver) == [kill, start]


def test_an_end_with_an_error_is_told_once_and_stops_always():
    end = milestone(10.0, FAILURE)
    assert beside_failures([end], [replace(failure(1), at=10.5)]) == []
    assert beside_failures([end], []) == [end]
    assert beside_failures([milestone(10.0, STOP)], [replace(failure(1), at=10.5)]) == [milestone(10.0, STOP)]


class _Job:
    """As much of a job as its milestones ask for."""

    def __init__(self, state: JobState = JobState.STOPPED) -> None:
        self.lost: TidegateError | None = None
        self.outcome = self
        self.is_drained = False
        self._state = state

    def lost_lease(self) -> TidegateError | None:
        return self.lost

    def end_state(self, _: BaseException | None) -> JobState:
        return self._state


class _Saved:
    def __init__(self, path: Path) -> None:
        self.found_at = path


def opened(folder: Path, job: _Job) -> MilestoneWriter:
    writer = MilestoneWriter(Folder.of(folder))
    writer.begin(cast("LiveJob", job))
    return writer


def kinds(folder: Path) -> list[MilestoneKind]:
    """The oldest first."""
    return [each.kind for each in reversed(read_milestones(folder))]


def beat(state: JobState) -> Beat:
    return Beat(job="words", job_id="abc", state=state, host="here", process=7, started_at=1.0, at=5.0, progress_at=5.0)


def test_a_start_tells_that_the_driver_before_it_was_killed(tmp_path: Path):
    write_beat(tmp_path, beat(JobState.RUNNING))
    for _ in range(2):  # the first start dies before its own beat
        opened(tmp_path, _Job()).tick()
    _, _, killed = read_milestones(tmp_path)
    assert (killed.kind, killed.at) == (KILL, 5.0)
    assert "process 7 on here" in killed.text


@pytest.mark.parametrize("state", [each for each in JobState if each is not JobState.RUNNING])
def test_a_start_behind_an_end_tells_of_no_kill(tmp_path: Path, state: JobState):
    write_beat(tmp_path, beat(state))
    opened(tmp_path, _Job()).tick()
    assert kinds(tmp_path) == [START]


def test_a_savepoint_that_is_requested_twice_is_told_once(tmp_path: Path):
    job = _Job()
    writer = opened(tmp_path, job)
    for name in ("one", "one", "two"):
        writer.saved(cast("Savepoint", _Saved(tmp_path / name)))
    writer.last(None)
    assert kinds(tmp_path) == [START, SAVEPOINT, SAVEPOINT, STOP]
    assert read_milestones(tmp_path)[0].text == "the job is STOPPED"


def test_a_job_that_failed_says_why(tmp_path: Path):
    writer = opened(tmp_path, _Job(JobState.FAILED))
    writer.last(ValueError("seven"))
    assert (kinds(tmp_path), read_milestones(tmp_path)[0].text) == ([START, FAILURE], "ValueError('seven')")


def test_a_driver_that_has_lost_its_lease_writes_over_nothing_of_its_successor(tmp_path: Path):
    job = _Job()
    writer = MilestoneWriter(Folder.of(tmp_path))
    job.lost = cast("TidegateError", object())
    writer.opening(cast("LiveJob", job))
    add_milestones(tmp_path, [milestone(99.0)])
    writer.saved(cast("Savepoint", _Saved(tmp_path / "late")))
    writer.ended(None)
    assert kinds(tmp_path) == [START]
