"""An HDFS and an S3 server for a benchmark: on loopback and on the same cores, as in the tests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server, set_environment
from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True)
class StorageServers:
    """Both servers, which run; the variables that lead AWS's clients to the second one are set."""

    hdfs: HdfsServer
    s3: S3Server

    def folders(self) -> dict[str, Folder]:
        """A new folder on each, by the name of its storage."""
        on_s3 = self.s3.folder()
        return {"hdfs": Folder.of(f"{self.hdfs.uri}/{on_s3.name}"), "s3": on_s3}


@contextmanager
def storage_servers(folder: Path) -> Generator[StorageServers]:
    """Both, for the time of a `with`; their data is below `folder`."""
    s3 = S3Server(folder / "s3")
    s3.folder_of_data.mkdir()
    with hdfs_server(folder) as hdfs:
        try:
            s3.start()
            with set_environment(s3.environment):
                yield StorageServers(hdfs, s3)
        finally:
            s3.stop()


@contextmanager
def hdfs_server(folder: Path) -> Generator[HdfsServer]:
    """HDFS alone."""
    hdfs = HdfsServer(folder / "hdfs")
    try:
        hdfs.start()
        yield hdfs
    finally:
        hdfs.stop()
