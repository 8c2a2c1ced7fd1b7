"""The ingest log: what was appended survives every kill and power loss, and nothing else ever counts."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fs_recorder import FsRecorder
from tidegate.checkpoints.ingest_layout import MARK, IngestPosition, segments, synced_end
from tidegate.checkpoints.ingest_read import read_slice, slices
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.core.errors import Code, TidegateError

WHERE = "source lines"


def test_what_append_returned_for_survives_a_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = FsRecorder(monkeypatch, below=tmp_path)
    with closing(SegmentLog(tmp_path / "ingest" / "lines", segment_bytes=60)) as log:
        for number in range(5):
            log.append([b"line %d" % number])
            newest = segments(tmp_path / "ingest" / "lines")[-1].path
            assert disk.survives(newest), f"line {number}"


def test_readers_see_a_line_only_when_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = FsRecorder(monkeypatch, below=tmp_path)
    with closing(SegmentLog(tmp_path)) as log:
        log.append([b"sea"])
        seen: list[int] = []
        disk.before_each = lambda event: seen.append(synced_end(tmp_path, WHERE).line) if event.what == "sync" else None
        log.append([b"sand"])
        assert seen == [1]
        assert synced_end(tmp_path, WHERE).line == 2


def test_lines_that_come_together_are_synced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with closing(SegmentLog(tmp_path)) as log:
        disk = FsRecorder(monkeypatch, below=tmp_path)
        log.append([b"%d" % number for number in range(10_000)])
        assert len(disk.synced()) == 1


# --- torn ends ---------------------------------------------------------------------------------------------


def test_an_end_torn_at_any_byte_is_cut_back_to_the_last_whole_frame(tmp_path: Path):
    with closing(SegmentLog(tmp_path / "whole")) as log:
        kept = log.append([b"sea", b"sand"])
        log.append([b"wind", b"wave"])
    name = segments(tmp_path / "whole")[0].path.name
    data = (tmp_path / "whole" / name).read_bytes()
    for size in range(kept.offset, len(data)):
        torn = folder_with(tmp_path / f"torn-{size}", name, data[:size])
        with closing(SegmentLog(torn)) as log:
            assert log.end == kept
            assert log.append([b"tide"]).line == 3
        assert read(torn) == [b"sea", b"sand", b"tide"]


def test_an_end_whose_bytes_came_back_as_zeros_is_cut_off(tmp_path: Path):
    """A power loss may keep the new size of a file and not its content."""
    with closing(SegmentLog(tmp_path)) as log:
        log.append([b"sea"])
    path = segments(tmp_path)[0].path
    path.write_bytes(path.read_bytes() + bytes(5000))
    with closing(SegmentLog(tmp_path)) as log:
        assert log.end.line == 1
        assert path.stat().st_size == log.end.offset
        log.append([b"sand"])
    assert read(tmp_path) == [b"sea", b"sand"]


def test_damage_in_front_of_whole_frames_is_no_torn_end_and_is_refused(tmp_path: Path):
    with closing(SegmentLog(tmp_path)) as log:
        middle = log.append([b"sea"])
        log.append([b"sand"])
        log.append([b"wind"])
    path = segments(tmp_path)[0].path
    data = bytearray(path.read_bytes())
    data[middle.offset + 42] ^= 1
    path.write_bytes(data)
    assert refused(lambda: SegmentLog(tmp_path)) is Code.RECORD_CORRUPT
    assert path.read_bytes() == bytes(data), "nothing was cut off"


def test_a_frame_altered_under_a_reader_is_refused_and_none_of_it_is_given(tmp_path: Path):
    with closing(SegmentLog(tmp_path)) as log:
        log.append([b"sea"])
        path = segments(tmp_path)[0].path
        path.write_bytes(path.read_bytes().replace(b"sea", b"see"))
        assert refused(lambda: read(tmp_path)) is Code.RECORD_CORRUPT


def test_a_killed_process_loses_nothing_that_it_was_told_to_count(tmp_path: Path):
    """Real kills: each time the log holds what was counted, and at most the frame that was under way beside it."""
    context = multiprocessing.get_context("fork")
    for life in range(3):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=append_for_ever, args=(tmp_path, life, there))
        process.start()
        there.close()
        counted = [here.recv() for _ in range(50)][-1]
        process.kill()
        process.join()
        while here.poll():
            try:
                counted = here.recv()
            except EOFError:
                break
        lines = read_after_open(tmp_path)
        mine = [line for line in lines if line.startswith(b"%d " % life)]
        assert mine == [b"%d %d" % (life, number) for number in range(len(mine))]
        assert counted <= len(mine) <= counted + 3


def append_for_ever(folder: Path, life: int, counted: Connection) -> None:
    log = SegmentLog(folder, segment_bytes=2000)
    number = 0
    while True:
        log.append([b"%d %d" % (life, number + each) for each in range(3)])
        number += 3
        counted.send(number)


LINES = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"-")), min_size=1, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("append"), LINES),
    st.tuples(st.just("reopen"), st.just([b""])),
    st.tuples(st.integers(0, 300), LINES),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_after_any_appends_kills_and_openings_it_holds_a_prefix_with_all_that_counted(
    steps: list[tuple[str | int, list[bytes]]],
):
    """A number kills an append when so many bytes of it have reached the disk."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sent: list[bytes] = []
        log = SegmentLog(folder, segment_bytes=200)
        for what, lines in steps:
            counted = list(sent)
            if what == "append":
                log.append(lines)
                sent += lines
                counted = list(sent)
            elif what != "reopen":
                before = log.end.offset
                log.append(lines)
                newest = segments(folder)[-1]
                size = newest.path.stat().st_size
                # What a roll has finished stays; of the new frame only a part does.
                begun = max(before - newest.begin.offset, 0)
                os.truncate(newest.path, min(size, begun + int(what)))
                sent += lines
            if what != "append":
                log.close()
                log = SegmentLog(folder, segment_bytes=200)
                held = read(folder)
                assert held in (counted, sent)
                sent = held
        log.close()
        assert read_after_open(folder) == sent


# --- segments ----------------------------------------------------------------------------------------------


def test_a_power_loss_that_brings_trimmed_segments_back_with_a_gap_does_no_harm(tmp_path: Path):
    with closing(SegmentLog(tmp_path, segment_bytes=100)) as log:
        ends = [log.append([b"line %d" % number]) for number in range(20)]
    oldest, second, third, *_ = segments(tmp_path)
    second.path.unlink()
    with closing(SegmentLog(tmp_path, segment_bytes=100)) as log:
        assert log.begin == third.begin
        assert read(tmp_path, third.begin, ends[19])[-1] == b"line 19"
        assert refused(lambda: read(tmp_path, oldest.begin, ends[19])) is Code.INGEST_LOST


def test_a_crash_between_two_segments_leaves_an_empty_one_and_goes_on(tmp_path: Path):
    with closing(SegmentLog(tmp_path, segment_bytes=10)) as log:
        end = log.append([b"sea"])
    (tmp_path / f"{end.offset:020d}-{end.line:020d}-{end.log}.lines").touch()
    with closing(SegmentLog(tmp_path, segment_bytes=10)) as log:
        assert log.append([b"sand"]).line == 2
    assert read(tmp_path) == [b"sea", b"sand"]


# --- another log, another opener ---------------------------------------------------------------------------


def test_segments_of_two_logs_in_one_folder_are_refused(tmp_path: Path):
    for name in ("one", "other"):
        with closing(SegmentLog(tmp_path / name)) as log:
            log.append([b"sea"])
    stray = segments(tmp_path / "other")[0].path
    stray.rename(tmp_path / "one" / stray.name)
    assert refused(lambda: SegmentLog(tmp_path / "one")) is Code.RECORD_CORRUPT


def test_a_log_that_is_put_back_beside_the_empty_one_of_a_refused_start_is_taken(tmp_path: Path):
    with closing(SegmentLog(tmp_path / "right")) as log:
        log.append([b"sea"])
    SegmentLog(tmp_path / "began").close()
    right = segments(tmp_path / "right")[0].path
    right.rename(tmp_path / "began" / right.name)
    with closing(SegmentLog(tmp_path / "began")) as log:
        log.append([b"sand"])
    assert read(tmp_path / "began") == [b"sea", b"sand"]


def test_a_look_whether_the_log_is_open_turns_no_opener_away(tmp_path: Path):
    SegmentLog(tmp_path).close()
    looked_at = threading.Event()

    def look() -> None:
        with (tmp_path / "lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            looked_at.set()
            time.sleep(0.03)

    thread = threading.Thread(target=look)
    thread.start()
    looked_at.wait()
    SegmentLog(tmp_path).close()
    thread.join()


def test_of_two_openers_the_second_is_refused_until_the_first_has_closed(tmp_path: Path):
    log = SegmentLog(tmp_path)
    assert refused(lambda: SegmentLog(tmp_path)) is Code.DRIVER_ALIVE
    log.append([b"sea"])
    log.close()
    log.close()
    SegmentLog(tmp_path).close()


def test_nothing_is_written_through_a_closed_log(tmp_path: Path):
    log = SegmentLog(tmp_path)
    log.close()
    names = [tmp_path / f"stranger-{number}" for number in range(5)]
    strangers = [name.open("w") for name in names]  # they get the numbers of the log's files
    assert refused(lambda: log.append([b"sea"])) is Code.STORAGE_UNUSABLE
    for stranger in strangers:
        stranger.close()
    assert [name.read_text() for name in names] == [""] * 5


# --- a disk that fails -------------------------------------------------------------------------------------


def test_a_full_disk_is_told_counts_nothing_and_goes_on_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk = FsRecorder(monkeypatch, below=tmp_path)
    with closing(SegmentLog(tmp_path)) as log:
        log.append([b"sea"])
        disk.fail("write", errno.ENOSPC)
        assert refused(lambda: log.append([b"sand"])) is Code.STORAGE_FULL
        assert (log.end.line, synced_end(tmp_path, WHERE).line) == (1, 1)
        disk.before_each = lambda event: None
        log.append([b"wind"])
    assert read_after_open(tmp_path) == [b"sea", b"wind"]


def test_lines_whose_mark_finds_no_space_do_not_count_and_come_once_when_they_are_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As on a file system that copies what is written over; who appends gives the same lines until they are taken."""
    disk = FsRecorder(monkeypatch, below=tmp_path)
    with closing(SegmentLog(tmp_path)) as log:
        log.append([b"sea"])
        disk.fail("write", errno.ENOSPC, named=MARK)
        assert refused(lambda: log.append([b"sand"])) is Code.STORAGE_FULL
        assert (log.end.line, synced_end(tmp_path, WHERE).line) == (1, 1)
        assert segments(tmp_path)[0].path.stat().st_size == log.end.offset
        disk.before_each = lambda event: None
        log.append([b"sand"])
        log.append([b"wind"])
        assert read(tmp_path) == [b"sea", b"sand", b"wind"]
    assert read_after_open(tmp_path) == [b"sea", b"sand", b"wind"]


def test_a_new_segment_that_cannot_be_opened_leaves_the_old_one_open_and_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Where the process has too many files open, say: the number of the old one may be that of any file by then."""
    with closing(SegmentLog(tmp_path, segment_bytes=10)) as log:
        log.append([b"sea"])
        with monkeypatch.context() as full:
            full.setattr(SegmentLog, "_open", no_file_left)
            assert refused(lambda: log.append([b"sand"])) is Code.STORAGE_UNUSABLE
        log.append([b"sand"])
    assert read_after_open(tmp_path) == [b"sea", b"sand"]


def no_file_left(*_: object) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_frame_of_which_only_a_part_found_space_leaves_nothing(tmp_path: Path):
    with closing(SegmentLog(tmp_path)) as log:
        log.append([b"sea"])
        with files_of_at_most(4096):
            assert refused(lambda: log.append([b"sand" * 5000])) is Code.STORAGE_UNUSABLE
        assert segments(tmp_path)[0].path.stat().st_size == log.end.offset
        log.append([b"wind"])
    assert read(tmp_path) == [b"sea", b"wind"]


def test_after_a_failed_sync_the_frame_does_not_count_and_nothing_more_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk = FsRecorder(monkeypatch, below=tmp_path)
    log = SegmentLog(tmp_path)
    log.append([b"sea"])
    disk.fail("sync", errno.EIO)
    assert refused(lambda: log.append([b"sand"])) is Code.STORAGE_UNUSABLE
    disk.before_each = lambda event: None
    assert refused(lambda: log.append([b"wind"])) is Code.STORAGE_UNUSABLE
    log.close()
    assert read_after_open(tmp_path) == [b"sea"]


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def folder_with(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir()
    (folder / name).write_bytes(data)
    return folder


def read(folder: Path, begin: IngestPosition | None = None, end: IngestPosition | None = None) -> list[bytes]:
    """The lines that count, as the tasks of an epoch read them."""
    last = end or synced_end(folder, WHERE)
    first = begin or IngestPosition(last.log, 0, 0)
    return [line for each in slices(folder, first, last, WHERE) for frame in read_slice(each) for line in frame.lines()]


def read_after_open(folder: Path) -> list[bytes]:
    SegmentLog(folder).close()
    return read(folder)


def error_of(call: Callable[[], object]) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        call()
    return caught.value


def refused(call: Callable[[], object]) -> Code:
    return error_of(call).catalogue_entry
