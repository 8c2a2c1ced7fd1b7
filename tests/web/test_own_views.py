"""Views of a job that a release has left which knew less than this one."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from tests.jobs.folders import another_driver, make_job, say
from tests.web.by_hand import ID, job_with_history, page, running_job
from tidegate.operate.beat import JobState, write_beat
from tidegate.operate.checkpoints_history import CheckpointsHistory, DoneCheckpoint
from tidegate.operate.milestones import Milestone, MilestoneKind, add_milestones
from tidegate.storages.local.storage import LocalStorage


def test_a_driver_that_notes_no_milestones_has_its_start_on_the_axis(tmp_path: Path) -> None:
    with running_job(tmp_path), page(tmp_path) as client:
        (begun,) = client.get(f"/jobs/{ID}/events-on-axis").json()["events"]
        started_at = client.get(f"/jobs/{ID}/live").json()["driver"]["started_at"]
    assert (begun["kind"], begun["at"]) == ("start", started_at)


def test_the_milestones_stand_between_the_failures_each_once(tmp_path: Path) -> None:
    job = job_with_history(tmp_path, "job")
    kinds = (MilestoneKind.START, MilestoneKind.SAVEPOINT, MilestoneKind.FAILURE, MilestoneKind.START)
    add_milestones(job, [Milestone(at=990.0 + 4 * at, kind=kind, text="") for at, kind in enumerate(kinds)])
    with page(tmp_path) as client:
        (found,) = [each["id"] for each in client.get("/jobs/cards").json()["jobs"]]
        events = client.get(f"/jobs/{found}/events-on-axis").json()["events"]
    assert [(each["at"], each["kind"]) for each in events][:4] == [
        *((990.0, "start"), (994.0, "savepoint"), (999.0, "restart"), (1002.0, "start")),
    ]
    assert events[2]["text"] == "TG-X: it broke"


def test_a_failure_that_cannot_be_read_hides_no_source(tmp_path: Path) -> None:
    with running_job(tmp_path) as job, page(tmp_path) as client:
        LocalStorage(job.job).note("history/failures/000000000001.json", b"{")
        assert client.get(f"/jobs/{ID}/sources").status_code == 200


@pytest.mark.parametrize("cards_first", [True, False])
def test_the_cards_and_the_checkpoints_of_a_long_job_do_not_get_each_others_epochs(
    tmp_path: Path, cards_first: bool
) -> None:
    job = make_job(tmp_path)
    say(job, JobState.FINISHED)
    CheckpointsHistory(job).add(
        [
            DoneCheckpoint(query="query", epoch=epoch, run=1, at=1_000.0 + epoch, duration_ms=1.0 + epoch, rows=5)
            for epoch in range(500)
        ]
    )
    with page(tmp_path) as client:
        if cards_first:
            client.get("/jobs/cards")
        details = client.get(f"/jobs/{ID}/checkpoints/details/100")
        fastest = client.get(f"/jobs/{ID}/checkpoints").json()["summary"]["end_to_end_duration"]["min"]
        (card,) = client.get("/jobs/cards").json()["jobs"]
    assert (details.status_code, fastest, len(card["rates"])) == (200, 1, 30)


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.STOPPED, JobState.CANCELED, JobState.FAILED])
def test_a_job_that_has_ended_is_in_its_state_since_its_driver_ended(tmp_path: Path, state: JobState) -> None:
    job, now = make_job(tmp_path), time.time()
    write_beat(job, msgspec.structs.replace(say(job, state), started_at=now - 300_000, at=now - 60))
    with page(tmp_path) as client:
        (card,) = client.get("/jobs/cards").json()["jobs"]
        ended_at = client.get(f"/jobs/{ID}").json()["end-time"]
    assert (card["state"], card["since"]) == (state.name, now - 60)
    assert ended_at == int((now - 60) * 1_000)


def test_a_job_that_died_is_dead_since_the_last_report_of_its_driver(tmp_path: Path) -> None:
    job, now = make_job(tmp_path), time.time()
    write_beat(job, msgspec.structs.replace(say(job, JobState.RUNNING), started_at=now - 300_000, at=now - 60))
    with page(tmp_path) as client:
        (card,) = client.get("/jobs/cards").json()["jobs"]
    assert (card["state"], card["since"]) == ("DIED", now - 60)


def test_a_job_that_lives_does_so_since_its_driver_began(tmp_path: Path) -> None:
    job, now = make_job(tmp_path), time.time()
    with another_driver(job) as process, page(tmp_path) as client:
        beat = say(job, JobState.RUNNING, process=process, at=now + 1)
        write_beat(job, msgspec.structs.replace(beat, started_at=now + 0.5))
        (card,) = client.get("/jobs/cards").json()["jobs"]
    assert (card["state"], card["since"]) == ("RUNNING", now + 0.5)
