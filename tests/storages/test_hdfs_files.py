"""The file sink on a real HDFS: its contract, and lost answers to a rename."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.support.hdfs import HdfsServer
from tests.support.proxy import Proxy, Rule
from tests.support.remote_files import RemoteFilesContract, content, visible
from tidegate.core.records import Evidence
from tidegate.sinks.files.names import HIDDEN
from tidegate.sinks.files.sink import FileSink
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.schemes import Folder
from tidegate.storages.target_files import TargetFiles
from tidegate.storages.targets import open_target_files
from tidegate.testing.contract import IDENTITY, attempt_of, rows_from
from tidegate.testing.target_files_contract import TargetFilesContract


class TestHdfsTargetFiles(TargetFilesContract):
    @pytest.fixture(autouse=True)
    def _server(self, hdfs: HdfsServer) -> None:
        self.place = f"{hdfs.uri}/targets/{secrets.token_hex(4)}"

    def open(self) -> TargetFiles:
        return open_target_files(self.place)

    def read(self, name: str) -> bytes | None:
        return content(open_checkpoint_files(self.place), name)


class TestFilesOnHdfs(RemoteFilesContract):
    forks_with_client = False

    @pytest.fixture(autouse=True)
    def _server(self, hdfs: HdfsServer) -> None:
        self.root = Folder.of(f"{hdfs.uri}/sinks")

    def test_files_may_be_compacted_at_any_time(self) -> None:
        """A staged file leaves its folder only by the rename: a file that is gone was visible."""
        sink, committable = self.opened(), self.committed(attempt_of(epoch=4))
        self.compact()
        assert sink.evidence(committable) is Evidence.PRESENT
        self.all_taken(sink.commit([committable]))
        self.target_has()

    def test_what_a_killed_claim_leaves_goes_at_the_next_start(self) -> None:
        sink, files = self.opened(), open_checkpoint_files(self.target)
        folder = f"{HIDDEN}/{self.place(sink).claims.folder(IDENTITY)}"
        left = f"{folder}/.g1-e9.claim.5f1e.tidegate.tmp"
        files.write(left, b"half")
        self.opened()
        assert content(files, left) is None

    def test_a_rename_whose_answer_is_lost_is_looked_at(self, proxy: Proxy) -> None:
        self.is_published_although(proxy, proxy.lose_answer(b"rename2"))

    def test_a_rename_that_never_came_is_done_again(self, proxy: Proxy) -> None:
        self.is_published_although(proxy, proxy.lose_request(b"rename2"))

    def is_published_although(self, proxy: Proxy, lost: Rule) -> None:
        sink = self.opened()
        committables = [self.prepared(sink, attempt_of(task=task), rows_from(task, 2)) for task in range(2)]
        self.place(sink).claims.claim(committables)
        far = FileSink("numbers", f"hdfs://127.0.0.1:{proxy.port}{self.target.path}", format="json")
        self.all_taken(far.commit(committables))
        assert lost.struck == 1
        assert len(visible(self.target)) == 2
        self.target_has(rows_from(0, 2), rows_from(1, 2))

    @pytest.fixture
    def proxy(self, hdfs: HdfsServer) -> Iterator[Proxy]:
        with Proxy(hdfs.port) as proxy:
            yield proxy
