"""Savepoints over REST; and no path leads out of what is served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from tests.jobs.folders import make_job, say
from tests.web.by_hand import ID, SAVED_ID, TRIGGER, ended_job, page, running_job, until
from tidegate.operate import Folder
from tidegate.operate.beat import JobState, ShownSetting, write_beat
from tidegate.web.places import allowed, savepoint_folders
from tidegate.web.problems import RequestProblem
from tidegate.web.site import Site


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[tuple[TestClient, str, str]]:
    """A page, and two savepoints of a job."""
    ended_job(tmp_path)
    with page(tmp_path) as client:
        found: list[str] = []
        for trigger in ("a" * 32, "b" * 32):
            body = {"targetDirectory": str(tmp_path / "saved"), "triggerId": trigger}
            client.post(f"/jobs/{SAVED_ID}/stop", json=body)
            ended = until(client, f"/jobs/{SAVED_ID}/savepoints/{trigger}", "status.id", "COMPLETED")
            found.append(ended["operation"]["location"])
        yield client, found[0], found[1]


def test_savepoints_are_listed_shown_compared_verified_and_disposed_of(
    saved: tuple[TestClient, str, str], tmp_path: Path
) -> None:
    client, one, other = saved
    listed = client.get("/savepoints", params={"dir": str(tmp_path / "saved")}).json()
    assert {each["path"] for each in listed["savepoints"]} == {one, other}
    details = client.get("/savepoints/details", params={"path": one}).json()
    assert details["queries"][0]["query"] == "query"
    differences = client.get("/savepoints/diff", params={"one": one, "other": other}).json()["differences"]
    assert ["id"] in [each["what"] for each in differences]

    (Path(one) / "queries/query/spark/metadata").write_text("altered")
    for path, whole in ((one, False), (other, True)):
        ticket = client.post("/savepoints/verify", json={"path": path}).json()["id"]
        assert until(client, f"/savepoints/verify/{ticket}", "state", "done")["whole"] is whole

    for _ in range(2):  # a double click
        client.post("/savepoint-disposal", json={"savepoint-path": other, "triggerId": TRIGGER})
    ended = until(client, f"/savepoint-disposal/{TRIGGER}", "status.id", "COMPLETED")
    assert ended["operation"] == {}
    assert not Path(other).exists()
    client.post("/savepoint-disposal", json={"savepoint-path": other, "triggerId": "D" * 32})
    gone = until(client, f"/savepoint-disposal/{'dD' * 16}", "status.id", "COMPLETED")
    assert gone["operation"]["failure-cause"]["class"].startswith("TG-")


OUTSIDE = ("/etc", "{storage}/../elsewhere", "{storage}/link", "s3://bucket/saved", "/", "{storage}-beside", "\0")


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leads_out_of_what_is_served_is_refused_everywhere(tmp_path: Path, path: str) -> None:
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / "link").symlink_to("/etc")
    named = path.format(storage=storage)
    with running_job(storage) as driver, page(storage) as client:
        answers = [
            client.get("/savepoints", params={"dir": named}),
            client.get("/savepoints/details", params={"path": named}),
            client.get("/savepoints/diff", params={"one": str(storage), "other": named}),
            client.post("/savepoints/verify", json={"path": named}),
            client.post("/savepoint-disposal", json={"savepoint-path": named}),
            client.post(f"/jobs/{ID}/savepoints", json={"target-directory": named}),
            client.post(f"/jobs/{ID}/stop", json={"targetDirectory": named}),
            client.post(f"/jobs/{ID}/actions", json={"kind": "savepoint", "into": named}),
        ]
        wanted = 400 if path == "\0" else 403
        assert {each.status_code for each in answers} == {wanted}
        assert driver.requests() == []


def test_the_savepoints_dir_of_a_job_and_the_folders_of_the_operator_are_served(tmp_path: Path) -> None:
    storage, saved, programs = (tmp_path / each for each in ("storage", "saved", "programs"))
    job = make_job(storage)
    beat = say(job, JobState.FINISHED)
    setting = ShownSetting(name="savepoints.dir", value=str(saved), origin="program")
    write_beat(job, msgspec.structs.replace(beat, settings=(setting,)))
    site = Site.of(Folder.of(storage), (str(programs),))
    assert savepoint_folders(site) == [str(saved)]
    for place in (storage / "saved", saved, saved / "savepoint-1", programs / "x"):
        assert allowed(site, str(place)) == str(place)
    with pytest.raises(RequestProblem):
        allowed(site, str(tmp_path))
