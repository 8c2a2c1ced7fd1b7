"""A savepoint goes through an archive as it is, or not at all."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import pytest

from tests.support.saved_job import write_job
from tidegate.core.errors import TidegateError
from tidegate.disk import blocks
from tidegate.savepoints import archive as savepoint_archive
from tidegate.savepoints.archive import export_file, export_stream, import_stream
from tidegate.savepoints.folder import MANIFEST, Savepoint, open_savepoint, savepoints_in, verify
from tidegate.savepoints.take import take

STATE = "queries/query/spark/state/0/0/4.delta"


@pytest.fixture
def saved(tmp_path: Path) -> Savepoint:
    return take(write_job(tmp_path / "job"), "one", tmp_path / "saved")


def archived(savepoint: Savepoint) -> bytes:
    stream = io.BytesIO()
    export_stream(savepoint, stream)
    return stream.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(TidegateError) as caught:
        act()
    return caught.value.code


@pytest.mark.parametrize("squeeze", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_what_went_through_an_archive_is_what_was_taken(
    saved: Savepoint, tmp_path: Path, squeeze: Callable[[bytes], bytes]
):
    told: list[tuple[int, int]] = []
    data = squeeze(archived(saved))
    found = import_stream(io.BytesIO(data), tmp_path / "there", lambda more, total: told.append((more, total)))
    assert found.folder == tmp_path / "there" / saved.folder.name
    assert contents(found.folder) == contents(saved.folder)
    assert verify(open_savepoint(found.folder)) == []
    assert (sum(more for more, _ in told), {total for _, total in told}) == (saved.size_bytes, {saved.size_bytes})
    assert [path.name for path in (tmp_path / "there").iterdir()] == [saved.folder.name]


def test_the_manifest_comes_first(saved: Savepoint):
    with tarfile.open(fileobj=io.BytesIO(archived(saved))) as archive:
        assert archive.getnames()[0] == f"{saved.folder.name}/{MANIFEST}"
        assert len(archive.getnames()) == 1 + len(saved.record.files)


@pytest.mark.parametrize("harm", ["a flipped bit", "cut", "longer", "gone", "a file more", "a link"])
def test_a_savepoint_that_is_not_as_it_was_taken_is_not_exported(saved: Savepoint, tmp_path: Path, harm: str):
    state = saved.folder / STATE
    data = state.read_bytes()
    match harm:
        case "a flipped bit":
            state.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        case "cut":
            state.write_bytes(data[:2])
        case "longer":
            state.write_bytes(data + b"x")
        case "gone":
            state.unlink()
        case "a file more":
            state.with_name("5.delta").write_text("more")
        case _:
            state.rename(tmp_path / "elsewhere")
            state.symlink_to(tmp_path / "elsewhere")
    expected = {"cut": "INCOMPLETE", "gone": "INCOMPLETE", "a link": "UNSAFE"}.get(harm, "ALTERED")
    assert code_of(lambda: export_file(saved, tmp_path / "out.tar")) == f"TG-SAVEPOINT-{expected}"
    assert [path.name for path in tmp_path.iterdir() if "out.tar" in path.name] == []


def test_an_archive_that_is_cut_anywhere_is_no_savepoint(saved: Savepoint, tmp_path: Path):
    data = archived(saved)
    end = data.rstrip(b"\0")
    for length in sorted({0, 1, 511, 512, 513, 1024, *range(1536, len(end), 512), len(end) - 1}):
        code = code_of(lambda length=length: import_stream(io.BytesIO(data[:length]), tmp_path / "there"))
        assert code in ("TG-SAVEPOINT-INCOMPLETE", "TG-RECORD-CORRUPT"), length
        there = tmp_path / "there"
        assert not there.exists() or list(there.iterdir()) == [], length


def repacked(
    data: bytes, change: Callable[[tarfile.TarInfo, bytes], list[tuple[tarfile.TarInfo, bytes]]]
) -> io.BytesIO:
    """The same archive, each member as `change` gives it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as before, tarfile.open(fileobj=out, mode="w") as after:
        for member in before:
            content = before.extractfile(member)
            assert content is not None
            for info, body in change(member, content.read()):
                info.size = len(body)
                after.addfile(info, io.BytesIO(body))
    out.seek(0)
    return out


def renamed(name: str) -> Callable[[tarfile.TarInfo, bytes], list[tuple[tarfile.TarInfo, bytes]]]:
    def change(member: tarfile.TarInfo, body: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
        if member.name.endswith(STATE):
            member.name = name
        return [(member, body)]

    return change


def top(name: str) -> Callable[[tarfile.TarInfo, bytes], list[tuple[tarfile.TarInfo, bytes]]]:
    def change(member: tarfile.TarInfo, body: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
        member.name = name + member.name[member.name.index("/") :]
        return [(member, body)]

    return change


def linked(member: tarfile.TarInfo, body: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    if member.name.endswith(STATE):
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
        return [(member, b"")]
    return [(member, body)]


def twice(member: tarfile.TarInfo, body: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(member, body)] * (2 if member.name.endswith(STATE) else 1)


def flipped(member: tarfile.TarInfo, body: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(member, bytes([body[0] ^ 1]) + body[1:] if member.name.endswith(STATE) else body)]


def longer(member: tarfile.TarInfo, body: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(member, body + b"x" if member.name.endswith(STATE) else body)]


def left_out(member: tarfile.TarInfo, body: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [] if member.name.endswith(STATE) else [(member, body)]


def manifest_later(member: tarfile.TarInfo, body: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [] if member.name.endswith(MANIFEST) else [(member, body)]


STRANGE: dict[str, tuple[Callable[[tarfile.TarInfo, bytes], list[tuple[tarfile.TarInfo, bytes]]], str]] = {
    "a path out": (renamed("savepoint/../../out"), "ALTERED"),
    "an absolute path": (renamed("/out"), "ALTERED"),
    "another name": (renamed("savepoint/other"), "ALTERED"),
    "a link": (linked, "UNSAFE"),
    "a file twice": (twice, "ALTERED"),
    "a flipped bit": (flipped, "ALTERED"),
    "a longer file": (longer, "ALTERED"),
    "a file left out": (left_out, "INCOMPLETE"),
    "no manifest first": (manifest_later, "INCOMPLETE"),
    "a hidden name": (top(".hidden"), "UNSAFE"),
    "the folder above": (top(".."), "UNSAFE"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_what_the_manifest_does_not_name_is_not_unpacked(saved: Savepoint, tmp_path: Path, case: str):
    change, expected = STRANGE[case]
    archive = repacked(archived(saved), change)
    before = sorted(path.name for path in tmp_path.iterdir())
    code = code_of(lambda: import_stream(archive, tmp_path / "there"))
    assert code == f"TG-SAVEPOINT-{expected}"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "there") == before
    assert not (tmp_path / "there").exists() or list((tmp_path / "there").iterdir()) == []


HEADERS = {
    "no number": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "x"},
    "no size": {"GNU.sparse.size": "1,2"},
    "no list": {"GNU.sparse.map": "nan"},
}


@pytest.mark.parametrize("case", HEADERS)
def test_an_archive_whose_headers_cannot_be_read_is_no_savepoint(saved: Savepoint, tmp_path: Path, case: str):
    def strange(member: tarfile.TarInfo, body: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
        if member.name.endswith(STATE):
            member.pax_headers = HEADERS[case]
        return [(member, body)]

    archive = repacked(archived(saved), strange)
    assert code_of(lambda: import_stream(archive, tmp_path / "there")) == "TG-SAVEPOINT-INCOMPLETE"
    assert list((tmp_path / "there").iterdir()) == []


class Killed(BaseException):
    """The process is gone."""


def test_killed_at_any_sync_an_import_leaves_no_savepoint_and_the_next_one_is_whole(
    saved: Savepoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data, there = archived(saved), tmp_path / "there"
    steps = 0
    for killed_at in range(1, 100):
        with monkeypatch.context() as patched:
            steps = 0

            def die(*_: object, killed_at: int = killed_at) -> None:
                nonlocal steps
                steps += 1
                if steps == killed_at:
                    raise Killed

            patched.setattr(blocks, "sync_file", die)
            patched.setattr(savepoint_archive, "sync_file", die)
            patched.setattr(savepoint_archive, "sync_folder", die)
            patched.setattr(savepoint_archive, "_tidy", lambda _: None)  # whoever is killed tidies nothing
            try:
                import_stream(io.BytesIO(data), there)
            except Killed:
                pass
            else:
                break
        found, wrong = savepoints_in(there)
        assert (wrong, [verify(each) for each in found]) in (([], []), ([], [[]])), killed_at
        if found:
            shutil.rmtree(found[0].folder)
    assert steps > len(saved.record.files), "a sync for each file at least was struck"
    assert [path.name for path in there.iterdir()] == [saved.folder.name], "what the killed ones left is gone"
    assert contents(there / saved.folder.name) == contents(saved.folder)


def test_what_is_there_already_is_not_written_over(saved: Savepoint, tmp_path: Path):
    data = archived(saved)
    assert code_of(lambda: import_stream(io.BytesIO(data), tmp_path / "saved")) == "TG-REQUEST-REFUSED"
    assert [path.name for path in (tmp_path / "saved").iterdir()] == [saved.folder.name]
    (tmp_path / "one.tar").write_text("mine")
    assert code_of(lambda: export_file(saved, tmp_path / "one.tar")) == "TG-REQUEST-REFUSED"
    assert (tmp_path / "one.tar").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_of_two_imports_at_once_one_is_refused_and_the_other_whole(saved: Savepoint, tmp_path: Path):
    data, there = archived(saved), tmp_path / "there"
    refused: list[str] = []

    def meanwhile(_more: int, _total: int) -> None:
        if not refused:
            refused.append(code_of(lambda: import_stream(io.BytesIO(data), there)))

    found = import_stream(io.BytesIO(data), there, meanwhile)
    assert refused == ["TG-REQUEST-REFUSED"]
    assert verify(found) == []


def test_an_export_is_a_file_that_is_whole_or_not_there(
    saved: Savepoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = tmp_path / "one.tar"
    with monkeypatch.context() as patched:

        def full(_: int) -> None:
            raise OSError(28, os.strerror(28))

        patched.setattr(savepoint_archive, "sync_file", full)
        assert code_of(lambda: export_file(saved, target)) == "TG-STORAGE-FULL"
    assert not target.exists()
    target.with_name(".one.tar.export").write_bytes(b"left by one that was killed" * 100_000)
    export_file(saved, target)
    whole = hashlib.sha256(target.read_bytes()).hexdigest()
    assert whole == hashlib.sha256(archived(saved)).hexdigest()
    assert [path.name for path in tmp_path.iterdir() if "one.tar" in path.name] == ["one.tar"]


class Full(io.BufferedWriter):
    """A file on a disk that takes nothing more."""

    def write(self, _: object, /) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_that_of_the_archive_and_not_of_the_savepoint(
    saved: Savepoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = tmp_path / "one.tar"
    monkeypatch.setattr(savepoint_archive, "open", lambda file, _: Full(io.FileIO(file, "wb")), raising=False)
    with pytest.raises(TidegateError) as caught:
        export_file(saved, target)
    assert (caught.value.code, caught.value.where) == ("TG-STORAGE-FULL", str(target))
    assert not target.exists()


def test_a_file_of_a_savepoint_that_its_disk_does_not_give_is_named(saved: Savepoint, monkeypatch: pytest.MonkeyPatch):
    state, path_open = saved.folder / STATE, Path.open

    def broken(path: Path, mode: str) -> IO[bytes]:
        if path == state:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return cast("IO[bytes]", path_open(path, mode))

    monkeypatch.setattr(Path, "open", broken)
    with pytest.raises(TidegateError) as caught:
        export_stream(saved, io.BytesIO())
    assert (caught.value.code, caught.value.where) == ("TG-STORAGE-UNUSABLE", str(state))


def test_an_archive_does_not_go_into_a_jobs_folder(saved: Savepoint, tmp_path: Path):
    (tmp_path / "job/job.json").touch()
    data = archived(saved)
    assert code_of(lambda: import_stream(io.BytesIO(data), tmp_path / "job/saved")) == "TG-REQUEST-REFUSED"
    assert code_of(lambda: import_stream(io.BytesIO(data), saved.folder / "in")) == "TG-REQUEST-REFUSED"
    assert not (tmp_path / "job/saved").exists()
