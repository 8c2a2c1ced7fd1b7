"""Views of a job that a release has left which knew less than this one."""

from __future__ import annotations

from pathlib import Path

from tests.web.by_hand import ID, job_with_history, page, running_job
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
