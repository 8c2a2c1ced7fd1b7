"""The file source on a real HDFS, under the contract of sources."""

from __future__ import annotations

import hdfs_native
import pytest

from tests.support.hdfs import HdfsServer
from tests.support.remote_source import RemoteSourceContract
from tests.support.session import small_session
from tidegate.sources.files.after_done import Cleaning, DoneReading
from tidegate.sources.files.globs import FileSelection
from tidegate.sources.files.lists import BEGIN, Listed
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.remote_listing import RemoteFiles
from tidegate.spark.sources.file_systems import closed_files
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


class TestFilesFromHdfs(RemoteSourceContract):
    @pytest.fixture(autouse=True)
    def _server(self, hdfs: HdfsServer) -> None:
        self.uri = hdfs.uri

    @property
    def root(self) -> Folder:
        return Folder.of(f"{self.uri}/sources")

    def test_a_done_file_is_removed_and_a_file_that_has_replaced_it_stays(self) -> None:
        log = self.log_of("a", "b")
        self.write("b", "another")
        Cleaning(self.files(), None, "source files").clean([DoneReading(log, 0)])
        assert (self.names(FileSelection()), self.names_with_hidden()) == (["b"], ["b"])

    def test_a_file_that_replaces_a_done_one_while_that_goes_is_not_lost(self) -> None:
        log = self.log_of("a")
        cleaning = Cleaning(_Written(self), None, "source files")
        cleaning.clean([DoneReading(log, 0)])
        assert self.text_of(self.files().path("a")) == "another"
        assert self.names_with_hidden() == ["a"]

    def test_a_done_file_is_moved_into_an_archive_and_over_no_other(self) -> None:
        archive = self.source_folder.parent / "done"
        open_storage(archive).replace("day=1/a", b"there before")
        log = self.log_of("day=1/a")
        Cleaning(self.files(), str(archive), "source files").clean([DoneReading(log, 0)])
        assert self.names_with_hidden() == []
        assert open_storage(archive).list("day=1") == ["a", "a.1"]
        assert open_storage(archive).read("day=1/a") == b"there before"

    def log_of(self, *names: str) -> FileLog:
        """A list with these new files."""
        for name in names:
            self.write(name, "some rows")
        log = FileLog(Folder.of(self.folder / "log"), lambda uri: uri, "source files", 100)
        log.open(lambda: BEGIN)
        found = {seen.name: seen for seen in self.files(FileSelection(recursive=True)).list()}
        log.write(BEGIN, [Listed(path=name, size=found[name].size, mtime_ns=found[name].mtime_ns) for name in names])
        return log

    def names_with_hidden(self) -> list[str]:
        return [each.name for each in open_checkpoint_files(self.source_folder).list()]


class _Written(RemoteFiles):
    """Files of a folder in which another program writes just before one of them is renamed."""

    def __init__(self, suite: TestFilesFromHdfs) -> None:
        super().__init__(suite.source_folder, suite.source_folder.for_spark(), FileSelection())
        self._suite = suite

    def rename(self, name: str, to: str) -> None:
        self._suite.write(name, "another")
        super().rename(name, to)


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
