"""The writing end of a channel under the contract of sinks, and its log: on a disk, on HDFS and on S3."""

from __future__ import annotations

import pytest

from tests.support.channel_contract import ChannelContract
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tidegate.core.records import ChannelKey
from tidegate.storages.schemes import Folder


class TestChannel(ChannelContract):
    pass


class TestKeyedChannel(ChannelContract):
    """The rows of every test go to several partitions, and some of these get rows of both tasks."""

    key = ChannelKey(column="word", partitions=3)


class TestChannelOnS3(ChannelContract):
    kills_at_most = 3

    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        self.root = s3.folder()


class TestChannelOnHDFS(ChannelContract):
    kills_at_most = 3
    forks_with_client = False

    @pytest.fixture(autouse=True)
    def _server(self, hdfs: HdfsServer) -> None:
        self.root = Folder.of(hdfs.uri)


@pytest.mark.more
class TestKeyedChannelOnS3(TestChannelOnS3):
    key = TestKeyedChannel.key


@pytest.mark.more
class TestKeyedChannelOnHDFS(TestChannelOnHDFS):
    key = TestKeyedChannel.key
