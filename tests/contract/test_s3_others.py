"""What is in a bucket of S3, under the contracts, on servers with other answers."""

from __future__ import annotations

import pytest

from tests.contract.test_leases import OfTerms
from tests.support.remote_files import RemoteFilesContract
from tests.support.s3 import S3Endpoint
from tests.support.s3_suites import FilesOfACheckpointInABucket, RecordsInABucket, RowsInABucket, TargetFilesInABucket
from tidegate.storages.schemes import Where

pytestmark = [pytest.mark.more, pytest.mark.cluster, pytest.mark.timeout(3600)]  # versitygw may have to be built


@pytest.fixture(params=["moto", "versitygw"])
def bucket(request: pytest.FixtureRequest) -> S3Endpoint:
    return request.getfixturevalue(request.param)


class TestRecords(RecordsInABucket):
    races = 5


class TestRows(RowsInABucket):
    pass


class TestFilesOfACheckpoint(FilesOfACheckpointInABucket):
    pass


class TestTargetFiles(TargetFilesInABucket):
    pass


class TestTerms(OfTerms):
    timeout = "6"

    @pytest.fixture(autouse=True)
    def _bucket(self, bucket: S3Endpoint) -> None:
        self.root = bucket.folder()

    def place(self) -> Where:
        return self.root / "job"


class TestFilesOnVersitygw(RemoteFilesContract):
    @pytest.fixture(autouse=True)
    def _server(self, versitygw: S3Endpoint) -> None:
        self.root = versitygw.folder()
