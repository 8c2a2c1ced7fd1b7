"""Commands find a job by its application of YARN in the folders that are noted in the user's home on HDFS."""

from __future__ import annotations

import json
from pathlib import Path

import hdfs_native
import pytest

from tests.jobs.folders import make_job, say, tidegate
from tests.support.hdfs import HdfsServer
from tests.support.today import turn
from tidegate.core.errors import TidegateError
from tidegate.operate.beat import JobState
from tidegate.operate.noted_folders import home_here, home_on, note_folder, noted_folders
from tidegate.storages.schemes import Folder

FIRST, SECOND = "application_1_1", "application_1_2"


@pytest.fixture
def home(hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """The home of a user of this test alone; the commands work in an empty folder."""
    client = hdfs_native.Client(hdfs.uri)
    client.mkdirs(f"/user/{tmp_path.name}", create_parent=True)
    client.set_permission(f"/user/{tmp_path.name}", 0o777)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf))
    monkeypatch.setenv("HADOOP_USER_NAME", tmp_path.name)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    home = home_here()
    assert home is not None
    assert str(home) == f"{hdfs.uri}/user/{tmp_path.name}/.tidegate"
    return home


@pytest.fixture
def two_jobs(home: Folder, tmp_path: Path) -> list[Path]:
    """Jobs of one name in two folders, each in an application of its own; both folders are noted."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, application in zip(folders, (FIRST, SECOND), strict=True):
        say(make_job(folder, "words"), JobState.STOPPED, application=application)
        note_folder(home, Folder.of(folder))
    return folders


def test_a_folder_is_noted_once_and_a_home_without_notes_names_none(home: Folder) -> None:
    assert list(noted_folders(home)) == []
    folders = [Folder.of("hdfs://host:8020/jobs"), Folder.of("s3://bucket/jobs")]
    for folder in (*folders, *folders):
        note_folder(home, folder)
    assert list(noted_folders(home)) == folders


@pytest.mark.parametrize("file_system", ["", "file:///"])
def test_a_disk_of_one_machine_is_no_home(file_system: str) -> None:
    assert home_on(file_system) is None


@pytest.mark.parametrize(
    "line", [["stop", "-p", "x", "words"], ["cancel", "-s", "x", "words"], ["savepoint", "words"], ["info", "words"]]
)
def test_the_application_alone_tells_which_job_is_meant(two_jobs: list[Path], line: list[str]) -> None:
    for folder, application in zip(two_jobs, (FIRST, SECOND), strict=True):
        code, output = tidegate(*line, "-yid", application)
        assert code == (0 if line[0] == "info" else 4), output
        _, output = tidegate("info", "words", "-yid", application)
        assert f"folder   {folder}/words" in output


def test_the_jobs_of_an_application_are_listed(two_jobs: list[Path]) -> None:
    code, output = tidegate("list", "-a", "-yid", SECOND, "--json")
    assert (code, [each["folder"] for each in json.loads(output)["jobs"]]) == (0, [f"{two_jobs[1]}/words"])
    elsewhere = tidegate("list", "-a", "-yid", SECOND, "--dir", str(two_jobs[0]), "--json")
    assert json.loads(elsewhere[1])["jobs"] == []
    assert "0 of 0 jobs in application_1_3 are shown" in tidegate("list", "-yid", "application_1_3")[1]


def test_an_application_without_the_job_is_told_with_what_was_found(two_jobs: list[Path]) -> None:
    code, output = tidegate("cancel", "words", "-yid", "application_1_3")
    assert (code, "TG-JOB-UNKNOWN" in output) == (3, True)
    assert "job words in application_1_1; job words in application_1_2" in output
    assert "--dir FOLDER" in output


@turn(0, of=4)
def test_a_folder_that_cannot_be_read_hides_no_other_one(home: Folder, two_jobs: list[Path]) -> None:
    (two_jobs[0].parent / "file").write_text("")
    note_folder(home, Folder.of(two_jobs[0].parent / "file"))
    note_folder(home, Folder(Folder.of("hdfs://a").scheme, "127.0.0.1:1", "/jobs"))
    assert tidegate("info", "words", "-yid", SECOND)[0] == 0
    assert (
        "127.0.0.1:1/jobs cannot be read: TG-STORAGE-UNUSABLE"
        in tidegate("info", "words", "-yid", "application_1_3")[1]
    )
    code, output = tidegate("list", "-yid", SECOND)
    assert (code, "note: hdfs://127.0.0.1:1/jobs cannot be read: TG-STORAGE-UNUSABLE" in output) == (0, True)


def test_an_id_of_one_job_is_enough_and_a_name_is_not(home: Folder, tmp_path: Path) -> None:
    say(make_job(tmp_path / "one", "words"), JobState.STOPPED, application=FIRST)
    note_folder(home, Folder.of(tmp_path / "one"))
    assert tidegate("info", "0a0b0c0d")[0] == 0
    assert tidegate("info", "words")[0] == 3
    say(make_job(tmp_path / "two", "others"), JobState.STOPPED, application=SECOND)
    note_folder(home, Folder.of(tmp_path / "two"))
    assert tidegate("info", "0a0b0c0d")[0] == 3


def test_a_job_of_the_settings_that_runs_in_no_application_is_taken_when_there_is_no_other_one(
    two_jobs: list[Path],
) -> None:
    say(make_job(Path(".tidegate"), "words"), JobState.STOPPED)
    assert f"folder   {two_jobs[0]}/words" in tidegate("info", "words", "-yid", FIRST)[1]
    code, output = tidegate("info", "words", "-yid", "application_1_3")
    assert (code, "the job runs in no application of YARN" in output) == (0, True)


def test_a_home_in_which_nothing_may_be_written_is_told(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody-of-them")
    home = home_on(hdfs.uri)
    assert home is not None
    with pytest.raises(TidegateError, match="TG-STORAGE-UNUSABLE"):
        note_folder(home, Folder.of("hdfs://host/jobs"))
