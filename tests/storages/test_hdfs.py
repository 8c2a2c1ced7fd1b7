"""Storage, journal and checkpoint files on a real HDFS, under the contracts that are shipped."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import hdfs_native
import pytest

from tests.support.hdfs import HdfsServer
from tests.support.ingest_contract import PiecesContract
from tests.support.today import turn
from tidegate.checkpoints.ingest_logs import open_ingest_log
from tidegate.checkpoints.ingest_pieces import PieceLog
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


class OnHdfs:
    """A folder of its own for each test."""

    place: str
    client: hdfs_native.Client

    @pytest.fixture(autouse=True)
    def _hdfs(self, hdfs: HdfsServer) -> None:
        self.place = f"{hdfs.uri}/contract/{secrets.token_hex(4)}"
        self.client = hdfs_native.Client(hdfs.uri)

    def path(self, name: str) -> str:
        return f"/{self.place.partition('://')[2].partition('/')[2]}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """By a hidden file and a rename, as Spark does."""
        open_storage(self.place).replace(name, data)


class TestHdfsStorage(OnHdfs, StorageContract):
    def open(self) -> Storage:
        return open_storage(self.place)


class TestHdfsJournal(OnHdfs, JournalContract):
    def open(self) -> Journal:
        return open_journal(self.place)

    def damage(self, reference: JournalRef, change: Callable[[bytes], bytes | None]) -> None:
        changed = change(self.client.read(self.path(reference.name)).read())
        self.client.delete(self.path(reference.name))
        if changed is not None:
            self.write(reference.name, changed)


class TestHdfsCheckpointFiles(OnHdfs, CheckpointFilesContract):
    sync_is_needed = False

    def open(self, root: str) -> CheckpointFiles:
        return open_checkpoint_files(f"{self.place}/{root}")

    def as_spark(self, root: str, name: str, data: bytes) -> None:
        self.write(f"{root}/{name}", data)


@turn(1, of=2)
class TestHdfsIngestLog(OnHdfs, PiecesContract):
    @pytest.fixture(autouse=True)
    def _root(self, _hdfs: None) -> None:
        self.root = Folder.of(self.place)

    def test_the_scheme_of_a_folder_chooses_the_kind_of_its_log(self) -> None:
        assert isinstance(open_ingest_log(self.log_folder()), PieceLog)
