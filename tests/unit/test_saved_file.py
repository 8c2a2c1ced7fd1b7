"""Whether a file of a savepoint is as it was taken is decided once, and files are copied by one loop."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tidegate.core.errors import Code
from tidegate.core.records import SavedFile
from tidegate.disk.blocks import copy_measured
from tidegate.savepoints.proof import copy_verified, flaw_at

CONTENT = b"rows of state"
SAVED = SavedFile(name="state/1.delta", size_bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())

FOUND = {
    "the same": (CONTENT, None),
    "cut": (CONTENT[:-1], Code.SAVEPOINT_INCOMPLETE),
    "empty": (b"", Code.SAVEPOINT_INCOMPLETE),
    "a flipped bit": (b"R" + CONTENT[1:], Code.SAVEPOINT_ALTERED),
    "longer": (CONTENT + b"!", Code.SAVEPOINT_ALTERED),
}


@pytest.mark.parametrize("found", FOUND, ids=str)
def test_a_file_is_judged_alike_where_it_is_and_on_its_way(found: str, tmp_path: Path) -> None:
    data, code = FOUND[found]
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(data)
    with source.open("rb", buffering=0) as read:
        copied = copy_verified(read, target, SAVED)
    assert copied == flaw_at(source, SAVED)
    assert (None if copied is None else copied.code) is code
    assert target.read_bytes() == data


def test_a_file_that_is_gone_is_missing(tmp_path: Path) -> None:
    flaw = flaw_at(tmp_path / "gone", SAVED)
    assert flaw is not None
    assert (flaw.code, flaw.expected, flaw.found) == (Code.SAVEPOINT_INCOMPLETE, "a file of 13 bytes", "none")
    assert flaw.error("here", "copy it again").code == "TG-SAVEPOINT-INCOMPLETE"


def test_a_copy_writes_a_new_file_only(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"linked to the savepoint")
    (tmp_path / "source").write_bytes(CONTENT)
    with (tmp_path / "source").open("rb", buffering=0) as read, pytest.raises(FileExistsError):
        copy_measured(read, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"linked to the savepoint"


def test_a_copy_ends_when_its_watcher_says_so(tmp_path: Path) -> None:
    def stop(_size_bytes: int) -> None:
        raise InterruptedError

    (tmp_path / "source").write_bytes(CONTENT)
    with (tmp_path / "source").open("rb", buffering=0) as read, pytest.raises(InterruptedError):
        copy_measured(read, tmp_path / "target", stop)
