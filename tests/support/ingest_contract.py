"""What is true of the ingest log on every storage: what was appended stays, in its order, and nothing else counts."""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from tidegate.checkpoints.ingest_layout import IngestPosition
from tidegate.checkpoints.ingest_log import IngestLog
from tidegate.checkpoints.ingest_piece import begins_in
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_standing import standing_log
from tidegate.core.errors import Code, TidegateError
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

WHERE = "source lines"


class AnyLog(ABC):
    """What is true of each log. `open`: the log with so small files that two appends do not share one."""

    @abstractmethod
    def open(self, name: str = "lines") -> IngestLog: ...

    @pytest.fixture(autouse=True)
    def _opened(self) -> Iterator[None]:
        self.logs: list[IngestLog] = []
        yield
        for log in self.logs:
            log.close()

    def opened(self, name: str = "lines") -> IngestLog:
        self.logs.append(self.open(name))
        return self.logs[-1]

    def again(self, log: IngestLog, name: str = "lines") -> IngestLog:
        log.close()
        return self.opened(name)

    def test_lines_come_back_in_order_as_they_were_whatever_their_bytes(self) -> None:
        lines = [b"sea", b"", b"\xff\x00\r", "süß".encode(), b"x" * 100_000]
        log = self.opened()
        log.append(lines[:2])
        log.append(lines[2:])
        assert log.end.line == 5
        assert read(log) == lines
        assert read(self.again(log)) == lines

    def test_a_part_between_two_positions_is_the_same_at_every_reading(self) -> None:
        log = self.opened()
        ends = [log.append([b"line %d" % number]) for number in range(40)]
        for _ in range(2):
            assert read(log, ends[3], ends[11]) == [b"line %d" % number for number in range(4, 12)]
            assert read(log, ends[3], ends[38]) == [b"line %d" % number for number in range(4, 39)]
        assert log.parts(ends[3], ends[3], WHERE) == []

    def test_rows_are_counted_on_after_each_opening_and_an_opening_adds_none(self) -> None:
        log = self.opened()
        begin = log.begin
        assert log.end == begin
        for number in range(3):
            end = log.append([b"%d" % number])
            log = self.again(self.again(log))
            assert (log.end, log.begin, log.end.line) == (end, begin, number + 1)
        assert read(log) == [b"0", b"1", b"2"]
        frame = log.last_frame()
        assert frame is not None
        assert frame.lines() == [b"2"]

    def test_a_log_without_rows_has_no_last_frame_and_nothing_to_read(self) -> None:
        log = self.again(self.opened())
        assert log.last_frame() is None
        assert log.append([]) == log.begin
        assert read(log) == []

    def test_trimming_removes_whole_files_that_nobody_needs_and_never_the_last_frame(self) -> None:
        log = self.opened()
        ends = [log.append([b"line %d" % number]) for number in range(20)]
        assert log.is_worth_a_trim(ends[9])
        log.trim(ends[9])
        assert 0 < log.begin.offset <= ends[9].offset
        assert not log.is_worth_a_trim(ends[9])
        log.trim(ends[3])
        assert read(log, ends[9], ends[19]) == [b"line %d" % number for number in range(10, 20)]
        assert refused(lambda: read(log, IngestPosition(log.end.log, 0, 0), ends[19])) is Code.INGEST_LOST
        log.trim(ends[19])
        frame = log.last_frame()
        assert frame is not None
        assert frame.lines() == [b"line 19"]
        log.append([b"more"])
        log = self.again(log)
        assert log.end.line == 21, "lines are counted on"
        assert log.begin.offset > 0
        assert read(log, log.begin) == [b"line 19", b"more"]

    def test_a_log_that_is_not_the_one_of_a_checkpoint_is_refused(self) -> None:
        log, other = self.opened(), self.opened("other")
        empty = log.end
        position = log.append([b"sea", b"sand"])
        other.append([b"sea", b"sand", b"wind"])
        error = error_of(lambda: other.require(position, WHERE))
        assert (error.catalogue_entry, "removed or exchanged" in error.found) == (Code.INGEST_LOST, True)
        later = IngestPosition(position.log, position.offset + 100, 3)
        error = error_of(lambda: log.require(later, WHERE))
        assert (error.catalogue_entry, "an older copy" in error.found) == (Code.INGEST_LOST, True)
        log.require(position, WHERE)
        log.require(empty, WHERE)

    def test_nothing_is_written_through_a_closed_log(self) -> None:
        log = self.opened()
        log.close()
        assert refused(lambda: log.append([b"sea"])) is Code.STORAGE_UNUSABLE
        assert read(self.opened()) == []


class PiecesContract(AnyLog):
    """What is true of a log that no lock protects. A process that is paused has the log open all the time."""

    root: Folder

    def open(self, name: str = "lines") -> IngestLog:
        return PieceLog(self.log_folder(name), pieces_to_trim=1)

    def log_folder(self, name: str = "lines") -> Folder:
        return self.root / "job" / "ingest" / name

    def pieces(self) -> Storage:
        """The storage of the pieces."""
        found = standing_log(self.log_folder())
        assert found is not None
        return open_storage(found.folder)

    def names(self) -> list[str]:
        return self.pieces().list("")

    def test_a_paused_writer_can_append_nothing_when_it_has_a_successor(self) -> None:
        paused = self.opened()
        paused.append([b"sea"])
        successor = self.opened()
        error = error_of(lambda: paused.append([b"lost"]))
        assert (error.catalogue_entry, "job `job`" in error.expected) == (Code.LEASE_LOST, True)
        assert refused(lambda: paused.append([b"lost"])) is Code.LEASE_LOST
        successor.append([b"sand"])
        assert read(successor) == read(self.again(successor)) == [b"sea", b"sand"]

    def test_a_paused_writer_whose_place_was_trimmed_is_told_so_and_leaves_nothing(self) -> None:
        """The name of its next piece is free again, so its put succeeds."""
        paused = self.opened()
        paused.append([b"sea"])
        successor = self.again(self.opened())
        ends = [successor.append([b"%d" % number]) for number in range(3)]
        successor.trim(ends[1])
        assert refused(lambda: paused.append([b"lost"])) is Code.LEASE_LOST
        assert read(successor, ends[1]) == [b"2"]
        again = self.again(successor)
        assert read(again, again.begin) == [b"2"]
        assert again.end == ends[2]
        assert begins_in(self.names())[0] == again.begin, "what came late is removed"

    def test_a_late_piece_at_the_end_that_an_opener_has_seen_counts_and_comes_before_its_own(self) -> None:
        paused = self.opened()
        paused.append([b"sea"])
        struck, late = Struck(self.log_folder()), [b"late"]
        struck.before_put = lambda: swallowed(lambda: paused.append([late.pop()])) if late else None
        successor = struck.log()
        successor.append([b"sand"])
        assert read(successor) == [b"sea", b"late", b"sand"]
        assert refused(lambda: paused.append([b"lost"])) is Code.LEASE_LOST

    def test_of_many_openers_at_once_one_can_append_and_what_was_confirmed_is_there_once(self) -> None:
        confirmed: list[bytes] = []
        ended: list[TidegateError | None] = []

        def work(number: int) -> None:
            ended.append(swallowed(lambda: append(PieceLog(self.log_folder()), number)))

        def append(log: IngestLog, number: int) -> None:
            for each in range(5):
                line = b"%d %d" % (number, each)
                log.append([line])
                confirmed.append(line)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # An opener sweeps what killed puts have left, and may take away a file that a put is about to rename.
        told = {each.catalogue_entry for each in ended if each is not None}
        assert told <= {Code.LEASE_LOST, Code.STORAGE_UNUSABLE}, ended
        assert len(ended) == len(threads), ended
        lines = read(self.opened())
        assert len(lines) == len(set(lines))
        assert set(confirmed) <= set(lines)

    def test_a_reader_on_another_machine_has_all_that_it_needs(self) -> None:
        log = self.opened()
        ends = [log.append([b"%d" % number]) for number in range(40)]
        parts = pickle.loads(pickle.dumps(log.parts(ends[4], ends[38], WHERE)))
        assert len(parts) > 1
        lines = [line for part in parts for frame in part.frames() for line in frame.lines()]
        assert lines == [b"%d" % number for number in range(5, 39)]

    def test_a_trim_that_was_cut_off_is_completed_by_the_next_opening(self) -> None:
        log = self.opened()
        ends = [log.append([b"%d" % number]) for number in range(10)]
        storage = self.pieces()
        kept = {name: storage.read(name) for name in self.names()[:5:2]}
        log.trim(ends[6])
        for name, data in kept.items():
            assert data is not None
            storage.put_if_absent(name, data)
        again = self.again(log)
        assert again.begin == ends[6]
        assert read(again, again.begin) == [b"7", b"8", b"9"]
        assert not set(kept) & set(self.names())

    def test_a_piece_that_is_gone_or_altered_is_missed(self) -> None:
        log = self.opened()
        ends = [log.append([b"%d" % number]) for number in range(4)]
        storage, name = self.pieces(), self.names()[2]
        data = storage.read(name)
        assert data is not None
        for at in (2, 9, 20, 60, len(data) - 2):
            storage.replace(name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert refused(lambda: read(log, ends[0])) is Code.RECORD_CORRUPT, f"byte {at}"
        storage.replace(name, data[:-1])
        assert refused(lambda: read(log, ends[0])) is Code.RECORD_CORRUPT
        storage.delete(name)
        assert refused(lambda: read(log, ends[0])) is Code.INGEST_LOST
        assert read(log, ends[1]) == [b"2", b"3"]

    def test_a_paused_writer_of_a_log_that_was_given_up_adds_nothing_to_the_next_one(self) -> None:
        paused = self.opened()
        paused.append([b"sea"])
        open_storage(self.log_folder()).clear("")
        assert refused(lambda: paused.append([b"lost"])) is Code.LEASE_LOST
        log = self.opened()
        assert refused(lambda: paused.append([b"lost"])) is Code.LEASE_LOST
        assert log.begin == log.end == IngestPosition(log.end.log, 0, 0)
        log.append([b"sand"])
        log = self.again(log)
        assert read(log) == [b"sand"]
        assert open_storage(self.log_folder()).folders("") == [log.end.log], "what came late is removed"

    def test_a_log_without_its_oldest_pieces_is_refused(self) -> None:
        log = self.opened()
        begin = log.begin
        log.append([b"sea"])
        log.append([b"sand"])
        log.close()
        for name in self.names()[:2]:
            self.pieces().delete(name)
        log = self.opened()
        assert refused(lambda: read(log, begin)) is Code.INGEST_LOST

    def test_a_log_without_its_newest_pieces_is_refused(self) -> None:
        log = self.opened()
        log.append([b"sea"])
        reached = log.append([b"sand"])
        log.close()
        for name in self.names()[2:]:
            self.pieces().delete(name)
        assert refused(lambda: self.opened().require(reached, WHERE)) is Code.INGEST_LOST


class Struck:
    """A log with something that happens before or after each put of a piece."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.before_put: Callable[[], object] = nothing
        self.after_put: Callable[[], object] = nothing

    def log(self) -> PieceLog:
        storage = cast("Storage", StruckStorage(open_storage(self.folder), self))
        return PieceLog(self.folder, pieces_to_trim=1, storage=storage)


class StruckStorage:
    def __init__(self, storage: Storage, struck: Struck) -> None:
        self._storage = storage
        self._struck = struck

    def below(self, folder: str) -> Storage:
        return cast("Storage", StruckStorage(self._storage.below(folder), self._struck))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        if not name.endswith(".piece"):
            return self._storage.put_if_absent(name, data)
        self._struck.before_put()
        created = self._storage.put_if_absent(name, data)
        self._struck.after_put()
        return created

    def __getattr__(self, call: str) -> Any:
        return getattr(self._storage, call)


def nothing() -> None:
    pass


def full() -> None:
    raise TidegateError(Code.STORAGE_FULL, expected="space", found="none", where="the storage")


def read(log: IngestLog, begin: IngestPosition | None = None, end: IngestPosition | None = None) -> list[bytes]:
    """The lines that count, as the tasks of an epoch read them."""
    first = begin or IngestPosition(log.end.log, 0, 0)
    return [
        line for part in log.parts(first, end or log.end, WHERE) for frame in part.frames() for line in frame.lines()
    ]


def error_of(call: Callable[[], object]) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        call()
    return caught.value


def refused(call: Callable[[], object]) -> Code:
    return error_of(call).catalogue_entry


def swallowed(call: Callable[[], object]) -> TidegateError | None:
    try:
        call()
    except TidegateError as error:
        return error
    return None
