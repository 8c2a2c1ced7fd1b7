"""What is in a bucket of S3, under the contracts that are shipped: for every server that a module has as `bucket`.

@pytest.fixture
def bucket(s3: S3Server) -> S3Endpoint: ...  # with the variables set that lead clients to it

class TestRecords(RecordsInABucket):
    pass
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.remote_files import content as content_of
from tests.support.s3 import S3Endpoint
from tidegate.core.records import JournalRef
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.journal import Journal
from tidegate.storages.journals import open_journal
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage
from tidegate.storages.target_files import TargetFiles
from tidegate.storages.targets import open_target_files
from tidegate.testing.checkpoint_files_contract import CheckpointFilesContract
from tidegate.testing.journal_contract import JournalContract
from tidegate.testing.storage_contract import StorageContract
from tidegate.testing.target_files_contract import TargetFilesContract


class RecordsInABucket(StorageContract):
    races = 3
    many = 1003
    """A page of S3 has 1,000 names."""

    @pytest.fixture(autouse=True)
    def _root(self, bucket: S3Endpoint) -> None:
        self.root = bucket.folder()

    def open(self) -> Storage:
        return open_storage(self.root)


class RowsInABucket(JournalContract):
    @pytest.fixture(autouse=True)
    def _root(self, bucket: S3Endpoint) -> None:
        self.bucket, self.root = bucket, bucket.folder()

    def open(self) -> Journal:
        return open_journal(self.root)

    def damage(self, reference: JournalRef, change: Callable[[bytes], bytes | None]) -> None:
        changed = change(content(self.bucket, self.root / reference.name))
        if changed is None:
            self.bucket.client().delete_object(Bucket=self.root.authority, Key=key_of(self.root / reference.name))
        else:
            put(self.bucket, self.root / reference.name, changed)


class FilesOfACheckpointInABucket(CheckpointFilesContract):
    sync_is_needed = False

    @pytest.fixture(autouse=True)
    def _root(self, bucket: S3Endpoint) -> None:
        self.bucket, self.root = bucket, bucket.folder()

    def open(self, root: str) -> CheckpointFiles:
        return open_checkpoint_files(self.root / root)

    def as_spark(self, root: str, name: str, data: bytes) -> None:
        put(self.bucket, self.root / root / name, data)


class TargetFilesInABucket(TargetFilesContract):
    @pytest.fixture(autouse=True)
    def _root(self, bucket: S3Endpoint) -> None:
        self.root = bucket.folder()

    def open(self) -> TargetFiles:
        return open_target_files(self.root)

    def read(self, name: str) -> bytes | None:
        return content_of(open_checkpoint_files(self.root), name)


def key_of(file: Folder) -> str:
    return file.path.removeprefix("/")


def put(server: S3Endpoint, file: Folder, data: bytes) -> None:
    server.client().put_object(Bucket=file.authority, Key=key_of(file), Body=data)


def content(server: S3Endpoint, file: Folder) -> bytes:
    return server.client().get_object(Bucket=file.authority, Key=key_of(file))["Body"].read()


def open_uploads(server: S3Endpoint, root: Folder) -> int:
    """Uploads in parts below a folder that are neither completed nor given up."""
    answer = server.client().list_multipart_uploads(Bucket=root.authority, Prefix=key_of(root))
    return len(answer.get("Uploads", []))
