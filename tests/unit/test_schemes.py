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
        ("s3n://bucket/jobs", "the scheme s3n"),
        ("s3:///jobs", "no name of a bucket"),
        ("gs://bucket/jobs", "the scheme gs"),
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


@pytest.mark.parametrize("where", ["s3://bucket/jobs", "s3a://bucket/jobs/", "S3://bucket//jobs/./words/.."])
def test_a_folder_of_s3_has_one_name_here_and_one_for_spark(where: str) -> None:
    jobs = Folder.of(where)
    assert jobs == Folder(Scheme.S3, "bucket", "/jobs")
    assert (str(jobs), jobs.for_spark()) == ("s3://bucket/jobs", "s3a://bucket/jobs")
    assert (str(jobs / "words"), (jobs / "words").for_spark()) == ("s3://bucket/jobs/words", "s3a://bucket/jobs/words")
    assert Folder.of(str(jobs)) == Folder.of(jobs.for_spark()) == jobs
    assert not jobs.is_local


def test_a_key_of_s3_is_plain_text_and_a_bucket_alone_is_a_folder() -> None:
    assert Folder.of("s3://bucket/50%25?#ä b").path == "/50%25?#ä b"
    assert [str(Folder.of(each)) for each in ("s3://bucket", "s3://bucket/")] == ["s3://bucket/"] * 2
    assert str(Folder.of("s3://bucket") / "words") == "s3://bucket/words"


def test_credentials_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(TidegateError) as caught:
        Folder.of("s3a://key:secret@bucket/jobs")
    assert (caught.value.found, caught.value.where) == ("credentials", "s3a://...@bucket/jobs")


def test_spark_knows_a_folder_on_a_local_disk_by_its_path(tmp_path: Path) -> None:
    assert Folder.of(tmp_path / "50%25 b").for_spark() == str(tmp_path / "50%25 b")


CLUSTER = """<?xml version="1.0"?>
<configuration><property><name>fs.defaultFS</name><value>{default}</value></property></configuration>
"""


@pytest.mark.parametrize(
    ("where", "full"),
    [
        ("hdfs://host:9000/user/me/", "hdfs://host:9000/user/me"),
        ("HDFS://host:9000", "hdfs://host:9000/"),
        ("hdfs://name-service/a b/50%25/c?d#e", "hdfs://name-service/a b/50%25/c?d#e"),
        ("hdfs:///jobs", "hdfs://default:8020/jobs"),
        ("hdfs:/jobs", "hdfs://default:8020/jobs"),
        ("viewfs://cluster/jobs", "viewfs://cluster/jobs"),
    ],
)
def test_a_uri_of_hdfs_is_full_and_read_as_hadoop_reads_it(
    where: str, full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text(CLUSTER.format(default="hdfs://default:8020/"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    folder = Folder.of(where)
    assert str(folder) == full
    assert Folder.of(str(folder)) == folder


@pytest.mark.parametrize("default", [None, "file:///", "viewfs://cluster/", "<"])
def test_a_uri_of_hdfs_without_a_host_needs_a_default(
    default: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    if default is not None:
        (tmp_path / "core-site.xml").write_text(CLUSTER.format(default=default))
    with pytest.raises(TidegateError) as caught:
        Folder.of("hdfs:///jobs")
    assert caught.value.code == "TG-SETTING-VALUE"
    assert "HADOOP_CONF_DIR" in str(caught.value)
