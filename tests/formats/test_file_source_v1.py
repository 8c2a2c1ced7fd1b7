"""Lists and index runs of a file source of format 1 are read for ever; torn, altered and newer ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate import TidegateError
from tidegate.sources.files.lists import Listed, decode, digest_of, encode
from tidegate.sources.files.runs import INDEX as INDEX_FOLDER
from tidegate.sources.files.runs import UNKNOWN, ListRun, key_of, open_run, stamp_of
from tidegate.storages.schemes import Folder

FOLDER = Path(__file__).parent / "v1"
LIST = (FOLDER / "file-list.entry").read_bytes()
INDEX = (FOLDER / "file-index" / "3-5.0a").read_bytes()
AT = 1_767_323_045_678_901_234

FILES = [
    Listed(path="2026/sea.json", size=17, mtime_ns=AT, ends="5d" * 16),
    Listed(path="new\nline [1] \N{WATER WAVE}.json", size=0, mtime_ns=-1),
    Listed(path="of Spark's own.json", mtime_ns=1_767_323_045_678_000_000),
]
ENTRIES = {
    "2026/sea.json": [(2093106359075394309, 3), (13216919156777189119, 5)],
    "of Spark's own.json": [(UNKNOWN, 4)],
    "never read.json": [],
}


def test_a_list_is_read_field_by_field_and_named_by_its_digest():
    assert decode(LIST, "list") == FILES
    assert digest_of(LIST) == "f01ab1658018afe6"
    assert encode(FILES) == LIST, "a position names a list by its bytes: one that is made again is the same"


def test_an_index_is_read_entry_by_entry(tmp_path: Path):
    assert found(run_of(INDEX, tmp_path)) == ENTRIES
    assert [stamp_of(17, AT), stamp_of(18, AT)] == [stamp for stamp, _ in ENTRIES["2026/sea.json"]]


def test_every_prefix_is_refused(tmp_path: Path):
    # a list without its last byte or bytes; the first two lines alone would be a list of no files
    assert {code_of(read_list, LIST[:length]) for length in range(len(LIST))} == {"TG-RECORD-CORRUPT"}
    read = reader_of_index(tmp_path)
    assert {code_of(read, INDEX[:length]) for length in range(len(INDEX))} == {"TG-RECORD-CORRUPT"}


def test_every_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path):
    for place in range(len(LIST)):
        for bit in range(8):
            same_or_refused(read_list, flipped(LIST, place, bit), FILES)
    read = reader_of_index(tmp_path)
    for place in range(len(INDEX)):
        same_or_refused(read, flipped(INDEX, place, place % 8), ENTRIES)


def test_a_later_format_is_refused_as_newer(tmp_path: Path):
    assert code_of(read_list, LIST.replace(b'"format":1', b'"format":2', 1)) == "TG-RECORD-NEWER"
    newer = INDEX.replace(b"file-index 1 ", b"file-index 2 ", 1)
    assert code_of(reader_of_index(tmp_path), newer) == "TG-RECORD-NEWER"


def read_list(data: bytes) -> object:
    return decode(data, "list")


def reader_of_index(folder: Path) -> Callable[[bytes], object]:
    return lambda data: found(run_of(data, folder))


def run_of(data: bytes, folder: Path) -> ListRun:
    path = folder / INDEX_FOLDER / "3-5.0a"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)  # a run that is mapped is never written again
    path.write_bytes(data)
    return open_run(Folder.of(folder), path.name)


def found(run: ListRun) -> dict[str, list[tuple[int, int]]]:
    assert (run.first, run.last) == (3, 5)
    return {name: run.find([key_of(name)]).get(key_of(name), []) for name in ENTRIES}


def flipped(data: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def same_or_refused(read: Callable[[bytes], object], data: bytes, expected: object) -> None:
    try:
        value = read(data)
    except TidegateError:
        return
    assert value == expected


def code_of(read: Callable[[bytes], object], data: bytes) -> str:
    with pytest.raises(TidegateError) as caught:
        read(data)
    return caught.value.code
