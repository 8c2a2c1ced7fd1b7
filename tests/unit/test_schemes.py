"""A path or a URI names a storage by its scheme."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder, Scheme


@pytest.mark.parametrize(
    "where", ["place", "./place", "file:{cwd}/place", "file://{cwd}/place", "FILE://localhost{cwd}/place"]
)
def test_a_path_and_a_uri_of_a_file_name_the_local_disk(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage(where.format(cwd=tmp_path))
    storage.put_if_absent("folder/record", b"content")
    assert (tmp_path / "place" / "folder" / "record").read_bytes() == b"content"
    assert storage.where("folder/record") == str(tmp_path / "place" / "folder" / "record")


@pytest.mark.parametrize("name", ["a b", "50%25", "file:", "s3:", "a://b", "umlaut-ä"])
def test_a_path_object_is_a_path_whatever_its_name_looks_like(name: str, tmp_path: Path) -> None:
    assert Folder.of(tmp_path / name).path == str(tmp_path / name)
    assert Folder.of((tmp_path / name).as_uri()).path == str(tmp_path / name)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("s3://bucket/jobs", "the scheme s3"),
        ("hdfs:///jobs", "the scheme hdfs"),
        ("file://another-machine/jobs", "the machine another-machine"),
    ],
)
def test_what_no_storage_serves_is_refused_with_what_is_there(where: str, found: str) -> None:
    with pytest.raises(TidegateError) as caught:
        open_storage(where)
    assert caught.value.code == "TG-SETTING-VALUE"
    assert (caught.value.found, caught.value.where) == (found, where)
    for scheme in Scheme:
        assert f"`{scheme.value}:`" in caught.value.expected


def test_a_folder_is_a_value_with_folders_below_and_above_it(tmp_path: Path) -> None:
    job = Folder.of(tmp_path / "jobs") / "words"
    assert str(job / "queries" / "count") == str(job / "queries/count") == str(tmp_path / "jobs/words/queries/count")
    assert (job.name, job.parent, job.local()) == ("words", Folder.of(str(tmp_path / "jobs")), tmp_path / "jobs/words")
    assert Folder.of(job) == Folder.of(str(job)) == Folder.of(job.local().as_uri()) == job
