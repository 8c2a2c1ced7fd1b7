"""Files that tasks read or write: those of this machine, or copies in a place that every machine reaches."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.spark.task_files import TaskFiles
from tidegate.storages.schemes import Folder

SCHEMAS = "state/0/_metadata/v2/0"


@pytest.mark.parametrize(
    ("master", "place", "is_used"),
    [
        ("local[2]", "hdfs://host:1/jobs/job", False),
        ("local-cluster[2,1,512]", "hdfs://host:1/jobs/job", False),
        ("spark://host:7077", "hdfs://host:1/jobs/job", True),
        ("yarn", "s3://bucket/jobs/job", True),
        ("k8s://host:443", "s3://bucket/jobs/job", True),
        ("local[2]", "/jobs/job", False),
    ],
)
def test_tasks_on_other_machines_get_files_of_their_own(master: str, place: str, is_used: bool) -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    folder = Folder.of(place)
    assert TaskFiles.of(session, folder, lambda _path: None).place == (folder if is_used else None)


def test_tasks_of_this_machine_use_the_files_themselves(tmp_path: Path) -> None:
    files = TaskFiles(None)
    with files.read(tmp_path) as read, files.written(tmp_path / "new") as written:
        assert (read, written) == (f"file:{tmp_path}", f"file:{tmp_path}/new")
    assert list(tmp_path.iterdir()) == []


def test_a_copy_is_there_as_long_as_tasks_read_it_and_its_schemas_lead_into_it(tmp_path: Path) -> None:
    checkpoint, copied = tmp_path / "checkpoint", list[str]()
    write(checkpoint, "offsets/0", "v1")
    write(checkpoint, SCHEMAS, 'v2\n{"path":"file:/before/state/0/_stateSchema/x"}')
    files = TaskFiles(Folder.of(tmp_path / "reached"), copied.append)
    with files.read(checkpoint) as there:
        assert there.startswith(f"{tmp_path}/reached/")
        assert (Path(there) / "offsets/0").read_text() == "v1"
        assert f"{there}/state/0/_stateSchema/x" in (Path(there) / SCHEMAS).read_text()
    assert copied == [f"{checkpoint}/offsets/0"]
    assert not (tmp_path / "reached").exists()


def test_what_tasks_have_added_is_in_the_folder_when_they_have_ended(tmp_path: Path) -> None:
    write(tmp_path / "folder", "offsets/0", "mine")
    files = TaskFiles(Folder.of(tmp_path / "reached"))
    with files.written(tmp_path / "folder") as there:
        assert (Path(there) / "offsets/0").read_text() == "mine"
        write(Path(there), "offsets/0", "changed there")
        write(Path(there), "state/0/0/1.delta", "rows")
    with files.written(tmp_path / "new") as there:
        write(Path(there), "part-0.parquet", "rows")
    assert contents(tmp_path) == {
        "folder/offsets/0": "mine",
        "folder/state/0/0/1.delta": "rows",
        "new/part-0.parquet": "rows",
    }


def test_nothing_stays_of_tasks_that_fail_or_of_a_copy_that_is_stopped(tmp_path: Path) -> None:
    write(tmp_path / "folder", "offsets/0", "mine")

    def fail() -> None:
        with TaskFiles(Folder.of(tmp_path / "reached")).written(tmp_path / "folder") as there:
            write(Path(there), "state/0/0/1.delta", "rows")
            raise ValueError("a task failed")

    def stop(_path: str) -> None:
        raise ValueError("the copy is stopped")

    with pytest.raises(ValueError, match="a task failed"):
        fail()
    with (
        pytest.raises(ValueError, match="the copy is stopped"),
        TaskFiles(Folder.of(tmp_path / "reached"), stop).read(tmp_path / "folder"),
    ):
        pass
    assert contents(tmp_path) == {"folder/offsets/0": "mine"}


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def contents(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}
