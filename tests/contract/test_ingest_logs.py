"""The ingest log on a disk and in a bucket. (On HDFS: tests/storages. What only a disk does: tests/unit.)"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.counted import Counted, counted_storage
from tests.support.ingest_contract import WHERE, AnyLog, PiecesContract, Struck, full, nothing, read, refused
from tests.support.s3 import S3Server
from tests.support.today import turn
from tidegate.checkpoints.ingest_frames import Payload, encode_frame
from tidegate.checkpoints.ingest_layout import IngestPosition
from tidegate.checkpoints.ingest_log import IngestLog
from tidegate.checkpoints.ingest_logs import open_ingest_log
from tidegate.checkpoints.ingest_piece import decode_piece, encode_piece, piece_name
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.core.errors import Code
from tidegate.storages.schemes import Folder
from tidegate.testing.memory_storage import Memory, MemoryStorage


class TestSegments(AnyLog):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def open(self, name: str = "lines") -> IngestLog:
        return SegmentLog(self.root / "job" / "ingest" / name, segment_bytes=1)

    def test_a_folder_on_a_disk_has_segments(self) -> None:
        log = self.opened()
        opened = open_ingest_log(Folder.of(self.root / "job/ingest/lines")) if log.close() is None else None
        assert isinstance(opened, SegmentLog)
        opened.close()


class TestPiecesOnADisk(PiecesContract):
    """No job has them there: as quick as the tests of one machine can be."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.root = Folder.of(tmp_path)


@turn(0, of=2)
class TestPiecesOnS3(PiecesContract):
    @pytest.fixture(autouse=True)
    def _s3(self, s3: S3Server) -> None:
        self.root = s3.folder()


# --- a storage that fails ----------------------------------------------------------------------------------


def test_rows_whose_put_had_no_space_and_came_through_all_the_same_count_once(tmp_path: Path) -> None:
    """The caller of a log that was full gives the same rows again."""
    struck = Struck(Folder.of(tmp_path / "job/ingest/lines"))
    log = struck.log()
    struck.after_put = full
    assert refused(lambda: log.append([b"sea"])) is Code.STORAGE_FULL
    assert log.end == log.begin
    struck.after_put = nothing
    log.append([b"sea"])
    log.append([b"sand"])
    assert read(log) == [b"sea", b"sand"]


def test_rows_whose_put_had_no_space_are_put_when_there_is_some(tmp_path: Path) -> None:
    struck = Struck(Folder.of(tmp_path / "job/ingest/lines"))
    log = struck.log()
    struck.before_put = full
    assert refused(lambda: log.append([b"sea"])) is Code.STORAGE_FULL
    struck.before_put = nothing
    log.append([b"sea"])
    assert read(log) == [b"sea"]


def test_a_trim_that_came_through_with_an_error_stops_no_append(tmp_path: Path) -> None:
    struck = Struck(Folder.of(tmp_path / "job/ingest/lines"))
    log = struck.log()
    ends = [log.append([b"%d" % number]) for number in range(4)]
    struck.after_put = full
    assert refused(lambda: log.trim(ends[1])) is Code.STORAGE_FULL
    struck.after_put = nothing
    log.append([b"4"])
    log.trim(ends[1])
    assert log.begin == ends[1]
    assert read(log, log.begin) == [b"2", b"3", b"4"]


def test_the_same_rows_of_a_successor_are_not_taken_for_ones_own(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path / "job/ingest/lines")
    struck = Struck(folder)
    paused = struck.log()

    def succeed() -> None:
        struck.before_put = nothing
        PieceLog(folder).append([b"sea"])

    struck.before_put = succeed
    assert refused(lambda: paused.append([b"sea"])) is Code.LEASE_LOST
    assert read(PieceLog(folder)) == [b"sea"]


def test_an_opener_that_was_paused_at_its_first_piece_stops_and_not_the_one_that_came_after_it(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path / "job/ingest/lines")
    struck = Struck(folder)
    others: list[PieceLog] = []

    def be_overtaken() -> None:
        struck.before_put = nothing
        others.append(PieceLog(folder))

    struck.before_put = be_overtaken
    assert refused(struck.log) is Code.LEASE_LOST
    others[0].append([b"sea"])
    assert read(others[0]) == read(PieceLog(folder)) == [b"sea"]


def test_ten_thousand_pieces_are_in_parts_of_a_bounded_size(tmp_path: Path) -> None:
    log = PieceLog(Folder.of("s3://bucket/job/ingest/lines"), storage=MemoryStorage(Memory()))
    ends = [log.append([b"%d" % number]) for number in range(10_000)]
    parts = log.parts(log.begin, ends[-1], WHERE)
    assert sum(len(part.names) for part in parts) == 10_001, "and the piece of the opening"
    assert max(len(part.names) for part in parts) <= 32


def test_an_append_is_one_put_and_one_read_and_a_trim_as_few_requests_as_the_store_needs() -> None:
    counted = Counted()
    storage = counted_storage(MemoryStorage(Memory()), counted)
    log = PieceLog(Folder.of("s3://bucket/job/ingest/lines"), storage=storage)
    ends = [log.append([b"0"])]  # the first append looks whether a restore replaces the log
    begun = counted.now()
    ends += [log.append([b"%d" % number]) for number in range(1, 101)]
    assert Counter(kind for kind, _ in counted.seen[begun:]) == {"put": 100, "read": 100}
    begun = counted.now()
    assert not log.is_worth_a_trim(ends[60])
    assert log.parts(ends[3], ends[90], WHERE)
    assert log.is_worth_a_trim(ends[70])
    assert counted.now() == begun, "what is there is known"
    log.trim(ends[70])
    assert Counter(kind for kind, _ in counted.seen[begun:]) == {"put": 1, "read": 1, "delete_all": 1}


def test_a_piece_is_read_as_this_release_writes_it() -> None:
    """`TGP1`, checksum, writer, begin of the log; then frames as in a segment."""
    begin, kept_from = IngestPosition("0a1b2c3d", 120, 2), IngestPosition("0a1b2c3d", 40, 1)
    frame, end = encode_frame(begin, Payload.of_lines([b"sea", b"sand"]))
    written = bytes.fromhex(
        "54475031 5e9ecbe5 7772697465722d31 0000000000000028 0000000000000001"
        "54474c31 6165d1c7 3061316232633364 0000000000000078 0000000000000002 00000002 00000009 7365610a73616e640a"
    )
    assert encode_piece(b"writer-1", kept_from, frame) == written
    name = "00000000000000000120-00000000000000000002-0a1b2c3d.piece"
    assert piece_name(begin) == name
    piece = decode_piece(written, name, "here")
    assert (piece.writer, piece.kept_from, piece.end) == (b"writer-1", kept_from, end)
    assert [line for each in piece.frames for line in each.lines()] == [b"sea", b"sand"]
