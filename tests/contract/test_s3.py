"""What is in a bucket of S3, under the contracts that are shipped, against a real server."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest

from tests.support.s3 import S3Server, environment, plain_client, set_environment
from tidegate.core.records import JournalRef
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.journal import Journal
from tidegate.storages.journals import open_journal
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage
from tidegate.testing.checkpoint_files_contract import CheckpointFilesContract
from tidegate.testing.journal_contract import JournalContract
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


@pytest.fixture(scope="module")
def moto() -> Iterator[None]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        with set_environment(environment(endpoint, "key", "secret")):
            plain_client(endpoint, "key", "secret").create_bucket(Bucket="moto-tests")
            yield
    finally:
        server.stop()


@pytest.mark.more
class TestMotoStorage(StorageContract):
    """Another server, with other answers: by its own code, in this process."""

    races = 5
    many = 1003

    @pytest.fixture(autouse=True)
    def _folder(self, moto: None) -> None:
        self.root = Folder.of(f"s3://moto-tests/{secrets.token_hex(4)}")

    def open(self) -> Storage:
        return open_storage(self.root)


class TestS3Journal(JournalContract):
    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        self.server, self.root = s3, s3.folder()

    def open(self) -> Journal:
        return open_journal(self.root)

    def damage(self, reference: JournalRef, change: Callable[[bytes], bytes | None]) -> None:
        changed = change(content(self.server, self.root / reference.name))
        if changed is None:
            self.server.client().delete_object(Bucket=self.root.authority, Key=key_of(self.root / reference.name))
        else:
            put(self.server, self.root / reference.name, changed)


class TestS3CheckpointFiles(CheckpointFilesContract):
    sync_is_needed = False

    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        self.server, self.root = s3, s3.folder()

    def open(self, root: str) -> CheckpointFiles:
        return open_checkpoint_files(self.root / root)

    def as_spark(self, root: str, name: str, data: bytes) -> None:
        put(self.server, self.root / root / name, data)


def key_of(file: Folder) -> str:
    return file.path.removeprefix("/")


def put(server: S3Server, file: Folder, data: bytes) -> None:
    server.client().put_object(Bucket=file.authority, Key=key_of(file), Body=data)


def content(server: S3Server, file: Folder) -> bytes:
    return server.client().get_object(Bucket=file.authority, Key=key_of(file))["Body"].read()
