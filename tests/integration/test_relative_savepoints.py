"""A relative `savepoints.dir` counts from the working folder of the driver. The driver reports the whole path, so the
page and the commands find the savepoints from every folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.place import Place, wait_until_finished
from tests.web.by_hand import page
from tidegate import FileSink, operate
from tidegate.settings.found import load_settings
from tidegate.spark.reported_settings import savepoints_folder, shown_settings


def test_savepoints_below_a_relative_folder_are_found_from_every_working_folder(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    place.write("sea")
    job = place.job(savepoints_dir="saved")
    job.query("query", place.words(job), sinks=[FileSink("files", place.folder / "out", format="json")])
    handle = job.start()
    wait_until_finished(handle, 0)
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)  # also the program itself may change its folder
    taken = str(handle.savepoint())
    handle.stop()
    assert Path(taken).parent == place.folder / "saved"
    with page(place.checkpoints) as client:
        listed = client.get("/savepoints").json()
        assert listed["folders"] == [str(place.folder / "saved")]
        assert [each["path"] for each in listed["savepoints"]] == [taken]
        assert client.get("/savepoints/details", params={"path": taken}).status_code == 200
        (found,) = client.get("/v1/jobs").json()["jobs"]
        newest = client.get(f"/jobs/{found['id']}/checkpoints").json()["latest"]["savepoint"]
        assert newest["external_path"] == taken
    answer = operate.open(place.checkpoints, "job").stop_with_savepoint(id="after-its-end").wait().answer
    assert answer is not None
    assert answer.savepoint is not None, answer.detail
    assert Path(answer.savepoint).parent == place.folder / "saved"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "in_container", "told"),
    [
        pytest.param("saved", False, "/jobs/saved", id="relative"),
        pytest.param("saved", True, "saved", id="relative, in a container whose folder is removed"),
        pytest.param("/saved", False, "/saved", id="absolute"),
        pytest.param("hdfs://store:8020/saved", False, "hdfs://store:8020/saved", id="a URI"),
        pytest.param("", False, "", id="none"),
    ],
)
def test_the_driver_reports_the_whole_path_if_others_can_use_it(
    given: str, *, in_container: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/jobs")
    settings = load_settings({"savepoints_dir": given} if given else {})
    assert (savepoints_folder(settings, in_container=in_container) or "") == told
    (row,) = (each for each in shown_settings(settings, in_container=in_container) if each.name == "savepoints.dir")
    assert row.value == told
