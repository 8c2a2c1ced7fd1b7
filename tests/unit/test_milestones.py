"""The milestones of a job: bounded, in the way of nothing, and each told once."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from tests.unit.test_failures import failure
from tidegate.core.errors import TidegateError
from tidegate.operate.beat import Beat, JobState, write_beat
from tidegate.operate.milestones import (
    MILESTONES_KEPT,
    Milestone,
    MilestoneKind,
    add_milestones,
    beside_failures,
    read_milestones,
)
from tidegate.savepoints.folder import Savepoint
from tidegate.spark.live_job import LiveJob
from tidegate.spark.milestones import MilestoneWriter
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

KILL, START, SAVEPOINT, STOP, FAILURE = (
    MilestoneKind.KILL,
    MilestoneKind.START,
    MilestoneKind.SAVEPOINT,
    MilestoneKind.STOP,
    MilestoneKind.FAILURE,
)


def milestone(at: float, kind: MilestoneKind = START) -> Milestone:
    return Milestone(at=at, kind=kind, text="")


def test_the_newest_two_hundred_stay_and_a_torn_line_spoils_no_other(tmp_path: Path):
    assert read_milestones(tmp_path) == []
    for at in range(MILESTONES_KEPT + 5):
        add_milestones(tmp_path, [milestone(at)])
    assert [each.at for each in read_milestones(tmp_path)] == list(range(5, MILESTONES_KEPT + 5))
    file = tmp_path / "history/milestones.jsonl"
    file.write_bytes(b'{"at":3,"ki\n' + file.read_bytes())
    assert [each.at for each in read_milestones(tmp_path)] == list(range(5, MILESTONES_KEPT + 5))


def test_a_disk_that_is_full_stops_neither_a_job_nor_a_savepoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalStorage, "note", full)
    add_milestones(tmp_path, [milestone(1.0)])
    assert read_milestones(tmp_path) == []


def test_a_kill_that_the_supervisor_has_recorded_is_told_once():
    kill, start = milestone(10.0, KILL), milestone(20.0)
    assert beside_failures([kill, start], [replace(failure(1), at=11.0)]) == [start]
    assert beside_failures([kill, start], []) == [kill, start]
    of_another_driver = [replace(failure(1), at=9.0), replace(failure(2), at=21.0)]
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
    writer.opening(cast("LiveJob", job))
    return writer


def kinds(folder: Path) -> list[MilestoneKind]:
    return [each.kind for each in read_milestones(folder)]


def beat(state: JobState) -> Beat:
    return Beat(job="words", job_id="abc", state=state, host="here", process=7, started_at=1.0, at=5.0, progress_at=5.0)


def test_a_start_tells_that_the_driver_before_it_was_killed(tmp_path: Path):
    write_beat(tmp_path, beat(JobState.RUNNING))
    opened(tmp_path, _Job())
    killed, _ = read_milestones(tmp_path)
    assert (killed.kind, killed.at) == (KILL, 5.0)
    assert "process 7 on here" in killed.text


@pytest.mark.parametrize("state", [each for each in JobState if each is not JobState.RUNNING])
def test_a_start_behind_an_end_tells_of_no_kill(tmp_path: Path, state: JobState):
    write_beat(tmp_path, beat(state))
    opened(tmp_path, _Job())
    assert kinds(tmp_path) == [START]


def test_a_savepoint_that_is_requested_twice_is_told_once(tmp_path: Path):
    job = _Job()
    writer = opened(tmp_path, job)
    for name in ("one", "one", "two"):
        writer.saved(cast("Savepoint", _Saved(tmp_path / name)))
    writer.ended(None)
    assert kinds(tmp_path) == [START, SAVEPOINT, SAVEPOINT, STOP]
    assert read_milestones(tmp_path)[-1].text == "the job is STOPPED"


def test_a_job_that_failed_says_why(tmp_path: Path):
    writer = opened(tmp_path, _Job(JobState.FAILED))
    writer.ended(ValueError("seven"))
    assert (kinds(tmp_path), read_milestones(tmp_path)[-1].text) == ([START, FAILURE], "ValueError('seven')")


def test_a_driver_that_has_lost_its_lease_writes_over_nothing_of_its_successor(tmp_path: Path):
    job = _Job()
    writer = opened(tmp_path, job)
    job.lost = cast("TidegateError", object())
    add_milestones(tmp_path, [milestone(99.0)])
    writer.saved(cast("Savepoint", _Saved(tmp_path / "late")))
    writer.ended(None)
    assert kinds(tmp_path) == [START, START]
