"""Files of a source without Spark: what is listed, what is taken, what is remembered."""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate import TidegateError
from tidegate.core.spark_log import goes_back, log_offset
from tidegate.sources.files.after_done import Cleaning, DoneReading
from tidegate.sources.files.choosing import Settling, taken
from tidegate.sources.files.globs import FileSelection, expression, split
from tidegate.sources.files.listing import LocalFiles, SeenFile
from tidegate.sources.files.lists import BEGIN, Listed, ListPosition, decode, encode
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.names import why_unreadable
from tidegate.sources.files.options import FileOptions
from tidegate.sources.files.reader import FileReader, Wait
from tidegate.sources.files.runs import ListRun, open_run
from tidegate.storages.schemes import Folder

MILLISECOND = 1_000_000


def log_in(folder: Path, reached: ListPosition = BEGIN) -> FileLog:
    folder.mkdir(parents=True, exist_ok=True)
    log = FileLog(Folder.of(folder), lambda uri: uri.removeprefix("file:///in/"), "source files", lists_in_a_run=4)
    log.open(lambda: reached)
    return log


def written(log: FileLog, lists: int) -> list[ListPosition]:
    """The position behind each list of a few epochs, of which each is done."""
    ends = [BEGIN]
    for number in range(lists):
        ends.append(log.write(ends[-1], listed(f"{number}/a", f"{number}/b")))
        log.settle_down(ends[-1])
    return ends[1:]


def listed(*names: str) -> list[Listed]:
    return [Listed(path=name, size=len(name), mtime_ns=1) for name in names]


def reader_in(folder: Path, root: Path, reached: ListPosition = BEGIN, **options: object) -> FileReader:
    given = FileOptions(**{"settle_seconds": 0.0, **options})  # pyright: ignore[reportArgumentType]
    return FileReader(given, LocalFiles(root, FileSelection()), log_in(folder, reached), "source files")


# --- lists and positions -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.text(min_size=1), st.integers(0, 1 << 60), st.integers(0, 1 << 62)), max_size=5))
def test_a_list_is_read_as_it_was_written(files: list[tuple[str, int, int]]):
    names = [Listed(path=name, size=size, mtime_ns=at, ends="e") for name, size, at in files]
    assert decode(encode(names), "here") == names


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1], lambda data: data.replace(b"sea", b"fog"), lambda _: b"v1\n"]
)
def test_a_spoilt_list_is_an_error_that_names_it(spoil: object):
    data = spoil(encode(listed("sea")))  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
    with pytest.raises(TidegateError, match="TG-RECORD-CORRUPT") as raised:
        decode(data, "list 3")  # pyright: ignore[reportUnknownArgumentType]
    assert raised.value.where == "list 3"


def test_positions_of_both_file_sources_are_in_one_order():
    old, new = '{"logOffset":4}', '{"logOffset":5,"digest":"ab"}'
    assert (goes_back(old, new), goes_back(new, old), log_offset(new)) == (False, True, 5)
    assert goes_back(new, '{"logOffset":4,"digest":"ab"}')


# --- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "encoding", "is_readable"),
    [
        ("a b%20#?[x]{y}*\n\\.json", "ANSI_X3.4-1968", True),
        ("a:b/c.json", "UTF-8", True),
        ("a/b:c.json", "UTF-8", False),
        ("caf\udce9.json", "UTF-8", False),
        ("café.json", "UTF-8", True),
        ("café.json", "ISO-8859-1", False),
        ("café.json", "ANSI_X3.4-1968", False),
        ("café.json", "an encoding of Java's alone", False),
    ],
)
def test_a_name_that_spark_cannot_open_is_known(name: str, encoding: str, is_readable: bool):
    assert (why_unreadable(name, encoding) is None) == is_readable


def test_a_file_that_spark_cannot_open_is_refused_by_name_and_never_passed_over(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "sea").touch()
    (tmp_path / "in" / os.fsdecode(b"caf\xe9\n")).touch()
    (tmp_path / "in" / "12:30").touch()
    with pytest.raises(TidegateError, match="TG-FILE-NAME") as raised:
        reader_in(tmp_path / "log", tmp_path / "in").latest(None)
    assert "caf\\xe9\\n is not UTF-8" in raised.value.found
    assert "12:30 has a colon" in raised.value.found


# --- the index ---------------------------------------------------------------------------------------------


def test_names_are_known_over_merges_and_starts_and_the_folder_stays_small(tmp_path: Path):
    log, lists = log_in(tmp_path), 100
    again = log_in(tmp_path, written(log, lists)[-1])
    names = [f"{number}/{name}" for number in range(lists) for name in "ab"]
    for each in (log, again):
        assert {name: [number for _, number in found] for name, found in each.find(names).items()} == {
            f"{number}/{name}": [number] for number in range(lists) for name in "ab"
        }
        assert each.find(["0/c"]) == {}
    assert len(list(tmp_path.rglob("*"))) < 40


@given(st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=15, deadline=None)
def test_who_goes_back_to_an_older_position_knows_the_names_of_that_one(
    tmp_path_factory: pytest.TempPathFactory, lists: int, reached: int
):
    folder = tmp_path_factory.mktemp("log")
    ends = [BEGIN, *written(log_in(folder), lists)]
    reached = min(reached, lists)
    back = log_in(folder, ends[reached])
    names = [f"{number}/a" for number in range(lists)]
    assert sorted(back.find(names)) == sorted(names[:reached])
    end = back.write(ends[reached], listed("another timeline"))
    assert set(log_in(folder, end).find([*names, "another timeline"])) == {*names[:reached], "another timeline"}


def test_a_list_that_is_missing_is_an_error_and_not_a_file_that_was_never_read(tmp_path: Path):
    ends = written(log_in(tmp_path), 3)
    (tmp_path / ends[1].name).unlink()
    with pytest.raises(TidegateError, match="TG-RECORD-CORRUPT"):
        log_in(tmp_path, ends[2])


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data + b"\n"], ids=["cut", "longer"])
def test_a_list_with_other_bytes_than_its_name_says_is_an_error(tmp_path: Path, spoil: Callable[[bytes], bytes]):
    ends = written(log_in(tmp_path), 3)
    file = tmp_path / ends[1].name
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(TidegateError, match="TG-RECORD-CORRUPT") as raised:
        log_in(tmp_path, ends[2])
    assert ends[1].name in (raised.value.where or "")


def test_a_late_list_of_a_driver_that_was_paused_changes_nothing(tmp_path: Path):
    paused, successor = log_in(tmp_path), log_in(tmp_path)
    first = successor.write(BEGIN, listed("read by the successor"))
    paused.write(BEGIN, listed("not read"))
    assert [each.path for each in successor.files_of(first)] == ["read by the successor"]
    again = log_in(tmp_path, first)
    assert set(again.find(["read by the successor", "not read"])) == {"read by the successor"}
    assert [each.path for each in again.files_of(first)] == ["read by the successor"]
    again.lists_in_a_run = 1
    again.settle_down(first)
    assert set(again.find(["read by the successor", "not read"])) == {"read by the successor"}


def test_the_same_files_planned_by_two_drivers_are_two_lists(tmp_path: Path):
    """A late removal of one of them must not hit the other."""
    one, two = log_in(tmp_path), log_in(tmp_path)
    assert one.write(BEGIN, listed("a")).name != two.write(BEGIN, listed("a")).name


def test_a_driver_that_was_paused_while_it_opened_the_log_removes_no_file_of_its_successor(tmp_path: Path):
    start = written(log_in(tmp_path), 6)[3]  # of a copy of the folder that holds more than the epoch that was restored
    ends = [start]

    def resume_late() -> ListPosition:
        successor = log_in(tmp_path, start)
        for number in range(40):
            ends.append(successor.write(ends[-1], listed(f"new {number}")))
            successor.settle_down(ends[-1])
        return start

    log = FileLog(Folder.of(tmp_path), lambda uri: uri, "source files", lists_in_a_run=4)
    with suppress(TidegateError, FileNotFoundError):  # what it has seen may be gone
        log.open(resume_late)
    again = log_in(tmp_path, ends[-1])
    names = [f"new {number}" for number in range(40)]
    assert set(again.find(["0/a", "3/a", "4/a", "5/a", *names])) == {"0/a", "3/a", *names}


def test_a_list_to_which_no_position_leads_goes_when_a_later_epoch_is_done(tmp_path: Path):
    log_in(tmp_path).write(BEGIN, listed("not read"))
    (unused,) = tmp_path.glob("[0-9]*-*")
    log = log_in(tmp_path)
    log.epochs_kept = 2
    end = log.write(BEGIN, listed("a"))
    log.settle_down(end)
    assert unused.exists(), "the driver that planned it may be about to record it"
    for name in "bc":
        end = log.write(end, listed(name))
        log.settle_down(end)
    assert not unused.exists()
    assert len(log_in(tmp_path, end).lists_up_to(2)) == 3


def test_a_driver_whose_list_did_not_count_puts_nothing_into_the_index(tmp_path: Path):
    successor, paused = log_in(tmp_path), log_in(tmp_path)
    paused.lists_in_a_run = 1
    paused.write(BEGIN, listed("not read"))
    paused.settle_down(successor.write(BEGIN, listed("a")))
    assert not list(tmp_path.glob("index/*"))


def test_an_altered_run_is_an_error_that_names_it(tmp_path: Path):
    written(log_in(tmp_path), 4)
    (run,) = (tmp_path / "index").iterdir()
    data = bytearray(run.read_bytes())
    data[200] ^= 1
    run.write_bytes(bytes(data))
    with pytest.raises(TidegateError, match="TG-RECORD-CORRUPT") as raised:
        open_run(Folder.of(tmp_path), run.name)
    assert raised.value.where == str(run)


def test_an_empty_run_is_an_error_that_names_it(tmp_path: Path):
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "0-3.0a").touch()
    with pytest.raises(TidegateError, match="TG-RECORD-CORRUPT"):
        open_run(Folder.of(tmp_path), "0-3.0a")


def test_what_spark_s_own_source_has_read_is_known(tmp_path: Path):
    def entry(name: str, *numbers: int) -> None:
        lines = [f'{{"path":"file:///in/{n}.json","timestamp":{1000 + n},"batchId":{n}}}' for n in numbers]
        (tmp_path / name).write_text("\n".join(["v1", *lines]))

    entry("8", 8)
    entry("9.compact", *range(10))
    for number in (10, 11, 12):
        entry(str(number), number)
    names = [f"{number}.json" for number in range(13)]
    of_spark = ListPosition(logOffset=11)
    log_in(tmp_path, of_spark)
    log = log_in(tmp_path, of_spark)  # again after a kill
    assert sorted(log.find(names)) == sorted(names[:12])
    assert log.files_of(of_spark) == [Listed(path="11.json", mtime_ns=1011 * MILLISECOND)]
    assert log.between(ListPosition(logOffset=9), of_spark) == [ListPosition(logOffset=10), of_spark]
    end = log.write(of_spark, listed("new.json"))
    assert set(log_in(tmp_path, end).find([*names, "new.json"])) == {*names[:12], "new.json"}
    for number in range(20):
        end = log.write(end, listed(f"{number}"))
        log.settle_down(end)
    assert [path.name for path in tmp_path.glob("[0-9]*") if "-" not in path.name] == []
    assert set(log_in(tmp_path, end).find([*names, "new.json", "19"])) == {*names[:12], "new.json", "19"}


# --- which files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("glob", "fits", "fits_not"),
    [
        ("*.json", ["a.json", ".json"], ["a.txt", "b/a.json"]),
        ("a?[0-9]", ["ax1"], ["ax", "a11x"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("{a,b{c,d}}.txt", ["a.txt", "bc.txt", "bd.txt"], ["b.txt", "c.txt"]),
        (r"\*a", ["*a"], ["xa"]),
    ],
)
def test_a_pattern_is_read_as_hadoop_reads_it(glob: str, fits: Sequence[str], fits_not: Sequence[str]):
    found = expression(glob)
    assert [bool(found.fullmatch(name)) for name in (*fits, *fits_not)] == [True] * len(fits) + [False] * len(fits_not)


def test_the_root_ends_where_a_pattern_begins():
    assert split("/data/in") == ("/data/in", ())
    root, patterns = split("/data/{a/x,b}/*.json")
    assert root == "/data"
    assert [len(pattern) for pattern in patterns] == [3, 2]


def test_a_link_that_leads_back_is_not_followed_for_ever(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    assert [seen.name for seen in LocalFiles(tmp_path, FileSelection(recursive=True)).list()] == ["a/x"]


def test_a_new_file_settles_when_it_stays_as_it_is():
    settling, second = Settling(2.0, on_this_clock=False), 10**9
    growing, whole = SeenFile("a", 1, 0), SeenFile("b", 5, 0)
    assert settling.settled([growing, whole], 0.0, 0) == ([], [growing, whole])
    longer = SeenFile("a", 2, 0)
    assert settling.settled([longer, whole], 2.0, 0) == ([whole], [longer])
    assert settling.settled([longer], 4.0, 0) == ([longer], [])
    here = Settling(2.0, on_this_clock=True)
    old, new, ahead = SeenFile("a", 1, 0), SeenFile("b", 1, 9 * second), SeenFile("c", 1, 99 * second)
    assert here.settled([old, new, ahead], 0.0, 10 * second) == ([old], [new, ahead])
    assert here.settled([new, ahead], 2.0, 12 * second) == ([new, ahead], [])


def test_an_epoch_takes_the_oldest_and_one_at_least():
    files = [SeenFile("b", 10, 2), SeenFile("a", 10, 2), SeenFile("c", 10, 1)]
    assert [seen.name for seen in taken(files, [(None, None)])] == ["c", "a", "b"]
    assert [seen.name for seen in taken(files, [(2, None), (None, 100)])] == ["c", "a"]
    assert [seen.name for seen in taken(files, [(None, 5)])] == ["c"]
    assert [seen.name for seen in taken(files, [(None, 20), (None, None)])] == ["c", "a"]
    assert taken([], [(1, 1)]) == []


def test_a_run_that_catches_up_waits_for_a_file_that_has_not_settled(tmp_path: Path):
    root = tmp_path / "in"
    root.mkdir()
    (root / "a").write_text("a")
    reader = reader_in(tmp_path / "log", root, settle_seconds=0.2)
    reader.catch_up()
    (root / "later").write_text("b")
    found = reader.latest(None)
    assert isinstance(found, Wait)
    end = time.monotonic() + 30
    while isinstance(found, Wait) and time.monotonic() < end:
        time.sleep(found.seconds)
        found = reader.latest(None)
    assert isinstance(found, str)
    assert reader.batch(None, found) == [f"file:{root}/a"]
    assert reader.latest(found) == found, "what came later is for the next run"


class SlowFiles(LocalFiles):
    """A disk under load, whose clock goes on by as much as a listing takes there; `changes`: so many files are written
    to while they are looked at."""

    def __init__(self, root: Path, listing_seconds: float, changes: int = 0) -> None:
        super().__init__(root, FileSelection())
        self.now = 0.0
        self.changes = changes
        self._listing_seconds = listing_seconds

    def list(self) -> list[SeenFile]:
        self.now += self._listing_seconds
        return super().list()

    def look(self, name: str) -> SeenFile | None:
        seen = super().look(name)
        self.changes -= 1
        return seen if seen is None or self.changes < 0 else seen._replace(size=seen.size + 1)


@pytest.mark.parametrize(("settle_seconds", "changes"), [(2.0, 0), (0.0, 3)])
def test_a_run_that_catches_up_is_not_through_while_a_file_waits_however_long_a_listing_takes(
    tmp_path: Path, settle_seconds: float, changes: int
):
    root = tmp_path / "in"
    root.mkdir()
    (root / "a").write_text("a")
    files = SlowFiles(root, listing_seconds=0.4, changes=changes)
    reader = reader_in(tmp_path / "log", root, settle_seconds=settle_seconds)
    reader.files, reader.clock, reader.now_ns = files, lambda: files.now, lambda: (root / "a").stat().st_mtime_ns
    reader.catch_up()
    found = reader.latest(None)
    assert isinstance(found, Wait)
    while isinstance(found, Wait):
        assert 0 < found.seconds < 2
        files.now += found.seconds
        found = reader.latest(None)
    assert isinstance(found, str), "nothing new, though a file waits"
    assert reader.batch(None, found) == [f"file:{root}/a"]
    assert reader.latest(found) == found
    listed_at = files.now
    assert (reader.latest(found), files.now) == (found, listed_at), "without news there is no listing for a while"


def test_a_list_that_no_offset_names_is_made_anew(tmp_path: Path):
    root = tmp_path / "in"
    root.mkdir()
    (root / "a").write_text("a")
    assert reader_in(tmp_path / "log", root).latest(None) is not None
    (root / "a").rename(root / "b")  # killed before Spark wrote the epoch's end
    reader = reader_in(tmp_path / "log", root)
    position = reader.latest(None)
    assert isinstance(position, str)
    assert reader.batch(None, position) == [f"file:{root}/b"]


# --- files that are done -----------------------------------------------------------------------------------


def test_a_file_goes_behind_the_slowest_reading_and_never_another_of_its_name(tmp_path: Path):
    root = tmp_path / "in"
    root.mkdir()
    for name in "abc":
        (root / name).write_text(name)
        os.utime(root / name, ns=(1, 1))
    logs = log_in(tmp_path / "one"), log_in(tmp_path / "two")
    end = BEGIN
    for name in "abc":
        end = logs[0].write(end, listed(name))
    logs[1].write(BEGIN, listed("a", "b"))
    cleaning = Cleaning(LocalFiles(root, FileSelection()), None, "source files")
    cleaning.clean([DoneReading(logs[0], 2), DoneReading(logs[1], -1)])
    assert sorted(path.name for path in root.iterdir()) == ["a", "b", "c"]
    (root / "b").write_text("another")
    cleaning.clean([DoneReading(logs[0], 2), DoneReading(logs[1], 0)])
    assert sorted(path.name for path in root.iterdir()) == ["b", "c"]


def test_a_file_is_moved_below_the_archive_and_over_no_other(tmp_path: Path):
    root, archive = tmp_path / "in", tmp_path / "archive"
    (root / "day=1").mkdir(parents=True)
    (archive / "day=1").mkdir(parents=True)
    (archive / "day=1" / "a").write_text("there before")
    (root / "day=1" / "a").write_text("x")
    os.utime(root / "day=1" / "a", ns=(1, 1))
    log = log_in(tmp_path / "log")
    log.write(BEGIN, [Listed(path="day=1/a", size=1, mtime_ns=1)])
    Cleaning(LocalFiles(root, FileSelection()), str(archive), "source files").clean([DoneReading(log, 0)])
    assert not list((root / "day=1").iterdir())
    assert {path.name: path.read_text() for path in (archive / "day=1").iterdir()} == {
        "a": "there before",
        "a.1": "x",
    }


class Written(LocalFiles):
    """Files of a folder in which somebody writes just before one of them is renamed, and just behind that."""

    def __init__(self, root: Path, before: Callable[[], object], behind: Callable[[], object]) -> None:
        super().__init__(root, FileSelection())
        self._before, self._behind = before, behind

    def rename(self, name: str, to: str) -> None:
        self._before()
        super().rename(name, to)
        self._behind()


@pytest.mark.parametrize("goes_to", [None, "archive"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_a_file_that_replaces_a_done_one_while_that_goes_is_not_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, goes_to: str | None, again: bool
):
    root = tmp_path / "in"
    root.mkdir()
    log = log_in(tmp_path / "log")
    log.write(BEGIN, listed("a"))

    def put(text: str) -> None:
        (tmp_path / "new").write_text(text)
        os.utime(tmp_path / "new", ns=(1, 1))
        os.replace(tmp_path / "new", root / "a")

    put("a")
    archive = None if goes_to is None else str(tmp_path / goes_to)
    files = Written(root, lambda: put("b"), lambda: put("c") if again else None)
    Cleaning(files, archive, "source files").clean([DoneReading(log, 0)])
    kept = {path.read_text() for path in root.iterdir()}
    assert kept == ({"b", "c"} if again else {"b"})
    assert (root / "a").read_text() == ("c" if again else "b")
    assert not (tmp_path / "archive").exists()
    assert ("is not read" in caplog.text) == again


@pytest.mark.parametrize(("is_done", "left"), [(True, []), (False, ["a"])], ids=["the done one", "another one"])
def test_what_a_killed_process_has_hidden_goes_or_comes_back_at_the_next_start(
    tmp_path: Path, is_done: bool, left: list[str]
):
    root = tmp_path / "in"
    root.mkdir()
    log = log_in(tmp_path / "log")
    log.write(BEGIN, listed("a"))
    (root / "a").write_text("a")
    os.utime(root / "a", ns=(1, 1))

    def die() -> None:
        if not is_done:
            os.utime(next(iter(root.iterdir())), ns=(2, 2))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cleaning(Written(root, lambda: None, die), None, "source files").clean([DoneReading(log, 0)])
    assert LocalFiles(root, FileSelection()).list() == []
    assert len(list(root.iterdir())) == 1
    Cleaning(LocalFiles(root, FileSelection()), None, "source files").clean([DoneReading(log, 0)])
    assert [path.name for path in root.iterdir()] == left


# --- scale -------------------------------------------------------------------------------------------------


def test_a_million_names_that_were_read_cost_a_search_and_no_reading_in(tmp_path: Path):
    """A thousand names are asked at once. What counts is memory and calls: both grow with them, not with the index."""
    halves = np.random.default_rng(seed=1).integers(0, 1 << 63, (3, 1_000_000), np.uint64)
    order = np.argsort(halves[0])
    run = ListRun("0-9.0a", 0, 9, halves[0][order], halves[1], halves[2], np.zeros(1_000_000, np.uint32))
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / run.name).write_bytes(run.to_bytes())
    log = log_in(tmp_path, ListPosition(logOffset=9, digest="0" * 16))
    names = [f"new-{name}" for name in range(1_000)]
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    tracemalloc.start()
    sys.setprofile(count)
    try:
        found = log.find(names)
    finally:
        sys.setprofile(None)
        _now, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found == {}
    assert peak < len(run), "not even a byte for each entry of the index"
    assert calls < 20 * len(names)
