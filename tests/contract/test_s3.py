"""What is in a bucket of S3, under the contracts that are shipped, against a real server."""

from __future__ import annotations

import pytest

from tests.support.s3 import S3Server
from tidegate.storages.opening import open_storage
from tidegate.storages.storage import Storage
from tidegate.testing.storage_contract import StorageContract


class TestS3Storage(StorageContract):
    races = 3
    many = 1003
    """A page of S3 has 1,000 names."""

    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        self.root = s3.folder()

    def open(self) -> Storage:
        return open_storage(self.root)
