"""What is in a bucket of S3, under the contracts that are shipped, against a real server."""

from __future__ import annotations

import pytest

from tests.support.s3 import S3Endpoint, S3Server
from tests.support.s3_suites import FilesOfACheckpointInABucket, RecordsInABucket, RowsInABucket, TargetFilesInABucket


@pytest.fixture
def bucket(s3: S3Server) -> S3Endpoint:
    return s3


class TestS3Storage(RecordsInABucket):
    pass


class TestS3Journal(RowsInABucket):
    pass


class TestS3CheckpointFiles(FilesOfACheckpointInABucket):
    pass


class TestS3TargetFiles(TargetFilesInABucket):
    pass
