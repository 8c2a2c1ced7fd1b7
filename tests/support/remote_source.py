"""The file source on a storage that is not a disk: its contract, what it selects, and input that is gone or changed."""

from __future__ import annotations

import json
import re
import secrets
from abc import abstractmethod
from collections.abc import Callable, Sequence

import pytest

from tests.support.file_reading import FilesReading
from tests.support.remote_files import content
from tidegate import FileSource
from tidegate.core.errors import TidegateError
from tidegate.sources.base import Source
from tidegate.sources.files.globs import FileSelection, split
from tidegate.sources.files.lists import BEGIN as NO_LIST
from tidegate.sources.files.lists import Listed
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.remote_listing import RemoteFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import Row
from tidegate.testing.source_contract import ReadingPlace, SourceContract, SourceReading

BEGIN: ReadingPlace = {"logOffset": -1}


class RemoteSourceContract(SourceContract):
    """Define `root`, a folder of the storage."""

    @property
    @abstractmethod
    def root(self) -> Folder: ...

    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.name = secrets.token_hex(6)

    @property
    def source_folder(self) -> Folder:
        return self.root / self.name / self.folder.name / "in"

    def make_source(self) -> Source:
        return FileSource(str(self.source_folder), format="json")

    def add(self, rows: Sequence[Row]) -> None:
        self.write(f"{rows[0]['id']:03}.json", "".join(json.dumps(row) + "\n" for row in rows))

    def reading(self, source: Source) -> SourceReading:
        return self.open_reading()

    # --- beyond the contract of sources ------------------------------------------------------------------------

    def test_it_reads_what_is_selected(self) -> None:
        for name in (
            *("a.json", "b.txt", "day=1/c.json", "day=1/hour=2/d.json", "sub/e.json", "_f.json", ".g.json"),
            *("_temporary/day=1/h.json", "day=1/_i.json", "j.json._COPYING_", ".tidegate/k.json"),
        ):
            self.write(name, "{}\n")
        json_only = re.compile(r".*\.json")
        assert self.names(FileSelection()) == ["a.json", "b.txt", "day=1/c.json", "day=1/hour=2/d.json"]
        assert self.names(FileSelection(names=json_only)) == ["a.json", "day=1/c.json", "day=1/hour=2/d.json"]
        recursive = FileSelection(names=json_only, recursive=True)
        assert self.names(recursive) == ["a.json", "day=1/c.json", "day=1/hour=2/d.json", "sub/e.json"]
        _, patterns = split("x/{day=1,s*}/*.json")
        assert self.names(FileSelection(patterns)) == ["day=1/c.json", "sub/e.json"]
        _, folders = split("x/day=*")
        assert self.names(FileSelection(folders)) == ["day=1/c.json", "day=1/hour=2/d.json"]

    def test_a_folder_that_is_not_there_yet_has_no_files(self) -> None:
        assert self.names(FileSelection()) == []

    def test_input_that_is_gone_before_its_epoch_is_done_is_refused_by_name(self) -> None:
        end = self.listed("0.json", "1.json")
        open_storage(self.source_folder).delete("0.json")
        self.refused("TG-FILE-LOST", "0.json", lambda: self.open_reading().rows(BEGIN, end))

    def test_a_late_list_of_a_driver_that_was_paused_changes_nothing(self) -> None:
        """No lease holds off a request that is on its way."""
        folder, made = self.root / self.name / "log", list[FileLog]()
        for reached in (NO_LIST, NO_LIST):
            made.append(FileLog(folder, lambda uri: uri, "source files"))
            made[-1].open(lambda reached=reached: reached)
        successor, paused = made
        end = successor.write(NO_LIST, [Listed(path="read", size=1, mtime_ns=1)])
        paused.write(NO_LIST, [Listed(path="not read", size=1, mtime_ns=1)])
        again = FileLog(folder, lambda uri: uri, "source files", epochs_kept=1, lists_in_a_run=2)
        again.open(lambda: end)
        assert set(again.find(["read", "not read"])) == {"read"}
        assert [each.path for each in again.files_of(end)] == ["read"]
        for number in range(3):
            end = again.write(end, [Listed(path=f"{number}", size=1, mtime_ns=1)])
            again.settle_down(end)
        lists = {position.name for position in again.lists_up_to(3)}
        assert {name for name in open_storage(folder).list("") if name[0].isdigit()} == lists

    def test_input_that_was_written_over_with_the_same_size_is_refused_by_name(self) -> None:
        end = self.listed("0.json", "1.json")
        self.write("1.json", '{"id": 7}\n')
        self.refused("TG-FILE-CHANGED", "1.json", lambda: self.open_reading().rows(BEGIN, end))

    def test_input_that_changes_while_an_epoch_reads_it_fails_the_epoch(self) -> None:
        for name in ("0.json", "1.json"):
            self.write(name, '{"id": 1}\n')
        reader = self.open_reading().reader
        end = reader.latest(json.dumps(BEGIN))
        assert isinstance(end, str)
        reader.batch(json.dumps(BEGIN), end)
        self.write("1.json", '{"id": 7}\n')
        self.refused("TG-FILE-CHANGED", "1.json", reader.verify)

    def test_what_spark_has_resolved_is_compared_in_the_unit_of_the_storages_times(self) -> None:
        self.write("0.json", "{}\n")
        reader = self.open_reading().reader
        end = reader.latest(json.dumps(BEGIN))
        assert isinstance(end, str)
        (path,) = reader.batch(json.dumps(BEGIN), end)
        (seen,) = self.files().list()
        reader.found([(path, 3, seen.mtime_ns // 1_000_000)])
        self.refused("TG-FILE-CHANGED", "0.json", lambda: reader.found([(path, 3, seen.mtime_ns // 1_000_000 + 5000)]))

    def test_a_name_beyond_ascii_is_read_whatever_the_locale_of_java_is(self) -> None:
        """HDFS and S3 have names of Unicode: no encoding of the machine is between."""
        self.write("\N{WATER WAVE} e\u0301.json", '{"id": 1}\n')
        reading = self.open_reading()
        reading.reader.names_in = "ANSI_X3.4-1968"
        assert len(reading.rows(BEGIN, reading.end(BEGIN))) == 1

    def test_the_folder_can_be_looked_at_without_the_program(self) -> None:
        self.write("0.json", "{}\n")
        (finding,) = FileSource(str(self.source_folder), format="json").probe("source lines")
        assert "can be listed, and has files" in repr(finding)

    # --- tools -------------------------------------------------------------------------------------------------

    def listed(self, *names: str) -> ReadingPlace:
        """The end of an epoch with these new files."""
        for name in names:
            self.write(name, '{"id": 1}\n')
        reading = self.open_reading()
        end = reading.end(BEGIN)
        assert len(reading.rows(BEGIN, end)) == len(names)
        return end

    def refused(self, code: str, name: str, act: Callable[[], object]) -> None:
        with pytest.raises(TidegateError) as caught:
            act()
        assert caught.value.code == code
        assert name in str(caught.value)

    def open_reading(self) -> FilesReading:
        return FilesReading(self.files, self.text_of, self.folder / "log")

    def files(self, selection: FileSelection | None = None) -> RemoteFiles:
        return RemoteFiles(self.source_folder, self.source_folder.for_spark(), selection or FileSelection())

    def names(self, selection: FileSelection) -> list[str]:
        return sorted(seen.name for seen in self.files(selection).list())

    def write(self, name: str, text: str) -> None:
        open_storage(self.source_folder).replace(name, text.encode())

    def text_of(self, path: str) -> str:
        name = path.removeprefix(f"{self.source_folder.for_spark()}/")
        return (content(open_checkpoint_files(self.source_folder), name) or b"").decode()
