"""Savepoints move between storages as archives: each is complete or absent, and every file is compared."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.jobs.folders import tidegate
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tests.support.saved_job import write_job
from tests.support.today import turn
from tidegate import operate
from tidegate.core.errors import TidegateError
from tidegate.savepoints.archive import export_stream
from tidegate.savepoints.archive_elsewhere import export_to, import_to, opened_archive
from tidegate.savepoints.at_a_place import open_at, savepoints_at, verify_at
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.take import take
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


@pytest.fixture(params=["hdfs", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """A folder of a test's own on each storage."""
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        return server.folder()
    hdfs: HdfsServer = request.getfixturevalue("hdfs")
    return Folder.of(f"{hdfs.uri}/archives/{tmp_path.name}")


@pytest.fixture
def saved(tmp_path: Path) -> Savepoint:
    return take(write_job(tmp_path / "job"), "one", tmp_path / "saved")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(folder: Folder) -> list[str]:
    return [each.name for each in open_checkpoint_files(folder).list()]


@turn(0, of=2)
def test_a_savepoint_goes_to_a_storage_and_back_as_it_was_taken(
    place: Folder, saved: Savepoint, tmp_path: Path
) -> None:
    archive, there = f"{place}/moved/one.tar", place / "savepoints"
    code, text = tidegate("savepoint", "export", str(saved.folder), archive, "--json")
    assert (code, json.loads(text)["file"]) == (0, archive), text
    code, text = tidegate("savepoint", "import", archive, str(there), "--json")
    assert code == 0, text
    path = json.loads(text)["path"]
    assert path == f"{there}/{saved.folder.name}"
    assert operate.verify_savepoint(path).problems == ()
    code, text = tidegate("savepoint", "export", path, str(tmp_path / "back.tar"))
    assert code == 0, text
    code, text = tidegate("savepoint", "import", str(tmp_path / "back.tar"), str(tmp_path / "back"))
    assert code == 0, text
    code, text = tidegate("savepoint", "diff", str(saved.folder), path)
    assert (code, text) == (0, "no difference\n")
    assert contents(tmp_path / "back" / saved.folder.name) == contents(saved.folder)

    assert tidegate("savepoint", "export", str(saved.folder), archive)[0] == 4, "the name is taken"
    assert tidegate("savepoint", "import", archive, str(there))[0] == 4, "the savepoint is there"
    assert tidegate("savepoint", "import", f"{place}/none.tar", str(there))[0] == 4, "no archive"
    assert tidegate("savepoint", "import", archive, path)[0] == 4, "a savepoint in a savepoint"


def test_an_import_that_was_cut_off_is_no_savepoint_and_the_same_import_resumes(
    place: Folder, saved: Savepoint
) -> None:
    archive = place / "one.tar"
    assert export_to(saved, archive) > saved.size_bytes
    come: list[int] = []

    def cut_off(size: int, _total: int) -> None:
        come.append(size)
        if len(come) == 3:
            raise KeyboardInterrupt

    with opened_archive(archive) as stream, pytest.raises(KeyboardInterrupt):
        import_to(stream, place / "into", cut_off)
    there = place / "into" / saved.folder.name
    assert savepoints_at(place / "into") == ([], [])
    left = names(there)
    assert len(left) == 3
    open_storage(there).replace(left[0], b"torn")
    with opened_archive(archive) as stream:
        import_to(stream, place / "into")
    (found,), wrong = savepoints_at(place / "into")
    assert (verify_at(found), wrong) == ([], [])


def test_altered_and_cut_archives_and_folders_of_others_are_refused(place: Folder, saved: Savepoint) -> None:
    stream = io.BytesIO()
    export_stream(saved, stream)
    data, there = stream.getvalue(), place / saved.folder.name
    begin = data.index(b"state 4")
    altered = data[:begin] + b"STATE" + data[begin + 5 :]
    for harmed, code in ((altered, "TG-SAVEPOINT-ALTERED"), (data[: len(data) // 2], "TG-SAVEPOINT-INCOMPLETE")):
        with pytest.raises(TidegateError) as raised:
            import_to(io.BytesIO(harmed), place)
        assert raised.value.code == code
        assert savepoints_at(place) == ([], [])
    open_storage(there).replace("rows-of-mine.csv", b"1")
    with pytest.raises(TidegateError) as raised:
        import_to(io.BytesIO(data), place)
    assert raised.value.code == "TG-REQUEST-REFUSED"
    assert "rows-of-mine.csv" in names(there)


def test_a_savepoint_that_was_altered_on_its_storage_leaves_no_archive(place: Folder, saved: Savepoint) -> None:
    stream = io.BytesIO()
    export_stream(saved, stream)
    stream.seek(0)
    found = import_to(stream, place)
    name = found.record.files[-1].name
    assert found.place is not None
    whole = open_storage(found.place).read(name) or b""
    for harmed in (bytes([whole[0] ^ 1]) + whole[1:], whole + b"x", whole[:-1]):
        open_storage(found.place).replace(name, harmed)
        with pytest.raises(TidegateError) as raised:
            export_to(open_at(found.place), place / "archives/one.tar")
        assert raised.value.code in ("TG-SAVEPOINT-ALTERED", "TG-SAVEPOINT-INCOMPLETE")
        assert names(place / "archives") == []
