"""Spark's files on the local disk are written without a process for each of them, with the same rights."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.integration.place import Place, run, wait_until_finished
from tests.support.today import turn
from tidegate import FileSink
from tidegate.spark import connectors
from tidegate.spark.local_files import local_files_conf

_FAULTS_OF_ENDED_CHILDREN = 8
"""Where in `/proc/<pid>/stat`, behind the name of the program, the page faults stand of children that have ended."""


@turn(0, of=3)
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_spark_starts_no_process_for_the_files_of_an_epoch(place: Place, backend: str) -> None:
    job = place.job(state_backend=backend, parallelism="2")
    counted = place.words(job).groupBy("word").count()
    job.query("query", counted, mode="update", sinks=[FileSink("out", place.folder / "out", format="json")])
    handle = job.start()
    try:
        ended: list[int] = []
        for epoch in range(4):
            place.write(f"word-{epoch}")
            wait_until_finished(handle, epoch)
            ended.append(processes_ended(place.spark))
    finally:
        handle.stop()
    # One may end that is not of an epoch: a Python worker of another test that was idle for a minute.
    assert len(set(ended)) <= 2, "a process for its files would end in each epoch"


def test_all_queries_of_a_job_get_settings_that_are_read_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=local_files_conf)
    monkeypatch.setattr(connectors, "local_files_conf", read)
    place.write("sea")
    job = place.job()
    words = place.words(job)
    for uid in ("first", "second"):
        job.query(uid, words, sinks=[FileSink(f"{uid}-out", place.folder / uid, format="json")])
    run(job)
    assert [place.words_out(uid) for uid in ("first", "second")] == [{0: ["sea"]}] * 2
    assert read.call_count == 1


def test_rights_are_those_that_hadoop_sets(spark: SparkSession, tmp_path: Path) -> None:
    for rights in (0o600, 0o640, 0o755, 0o777, 0o1777):
        ours, plain = (made(spark, tmp_path / f"{side}-{rights:o}", rights, side) for side in ("ours", "plain"))
        assert f"{ours:o}" == f"{plain:o}"
    with pytest.raises(Py4JJavaError, match="NoSuchFileException"):
        file_system(spark, "ours").setPermission(hadoop_path(spark, tmp_path / "none"), permission(spark, 0o600))


def made(spark: SparkSession, folder: Path, rights: int, side: str) -> int:
    """The rights of a new folder and of the checksum of a new file in it, as one number."""
    files, path = file_system(spark, side), hadoop_path(spark, folder)
    files.mkdirs(path)
    files.setPermission(path, permission(spark, rights))
    files.create(hadoop_path(spark, folder / "file")).close()
    return stat.S_IMODE(folder.stat().st_mode) << 12 | stat.S_IMODE((folder / ".file.crc").stat().st_mode)


def file_system(spark: SparkSession, side: str) -> Any:
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.conf.Configuration()
    for key, value in (local_files_conf(spark) if side == "ours" else {}).items():
        conf.set(key, value)
    return jvm.org.apache.hadoop.fs.Path("file:///").getFileSystem(conf)


def hadoop_path(spark: SparkSession, path: Path) -> Any:
    return spark._jvm.org.apache.hadoop.fs.Path(str(path))  # type: ignore[union-attr]


def permission(spark: SparkSession, rights: int) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.permission.FsPermission(jvm.java.lang.Short.parseShort(str(rights)))


def processes_ended(spark: SparkSession) -> int:
    """A number that grows with each child of Spark's JVM that has ended."""
    jvm: Any = spark._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_FAULTS_OF_ENDED_CHILDREN])
