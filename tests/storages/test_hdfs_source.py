"""The file source on a real HDFS, under the contract of sources."""

from __future__ import annotations

import hdfs_native
import pytest

from tests.support.hdfs import HdfsServer
from tests.support.remote_source import RemoteSourceContract
from tests.support.session import small_session
from tidegate.spark.sources.file_systems import closed_files
from tidegate.storages.schemes import Folder


class TestFilesFromHdfs(RemoteSourceContract):
    @pytest.fixture(autouse=True)
    def _server(self, hdfs: HdfsServer) -> None:
        self.uri = hdfs.uri

    @property
    def root(self) -> Folder:
        return Folder.of(f"{self.uri}/sources")


@pytest.mark.more
def test_a_file_that_is_still_written_is_left_to_a_later_epoch(hdfs: HdfsServer) -> None:
    """HDFS shows it as empty for as long as its first block is not full."""
    spark = small_session()
    is_closed = closed_files(spark, hdfs.uri)
    writer = hdfs_native.Client(hdfs.uri).create("/still/written.json")
    writer.write(b"{}\n")
    assert not is_closed(f"{hdfs.uri}/still/written.json")
    writer.close()
    assert is_closed(f"{hdfs.uri}/still/written.json")
    assert is_closed(f"{hdfs.uri}/still/absent.json"), "the looks at the file decide"
    spark.stop()
