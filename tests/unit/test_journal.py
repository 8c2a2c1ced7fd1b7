"""The journal: an attempt's rows come back whole, or an error names the file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.fs_recorder import FsRecorder
from tidegate.core.errors import TidegateError
from tidegate.core.records import Attempt, JournalRef, SinkIdentity
from tidegate.storages.journal import JournalMissing, journal_name
from tidegate.storages.journals import open_journal

ROWS = pa.record_batch({"word": ["tide", "gate", None], "count": [1, 2, 3], "at": [b"\x00", b"", None]})
MORE_ROWS = pa.record_batch({"word": ["late"], "count": [4], "at": [b"x"]})


def test_the_rows_come_back_as_they_were_written(tmp_path: Path):
    reference = journal(tmp_path, "3/counts.r1-ab-t0-a0.arrow", ROWS, MORE_ROWS)
    assert list(open_journal(tmp_path).read(reference)) == [ROWS, MORE_ROWS]
    assert (reference.name, reference.rows) == ("3/counts.r1-ab-t0-a0.arrow", 4)


def test_the_file_is_named_after_epoch_sink_and_attempt():
    sink = SinkIdentity(job="j", job_id="i", generation=0, query="q", sink="counts")
    attempt = Attempt(sink=sink, run=2, run_token="ab", epoch=3, task=4, task_attempt=5)
    assert journal_name(attempt) == "3/counts.r2-ab-t4-a5.arrow"


def test_a_closed_journal_survives_a_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = FsRecorder(monkeypatch, below=tmp_path)
    reference = journal(tmp_path / "ledger" / "journal", "3/counts.a.arrow", ROWS)
    assert disk.survives(tmp_path / "ledger" / "journal" / reference.name)


def test_the_journal_is_synced_after_its_last_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = FsRecorder(monkeypatch, below=tmp_path)
    sizes: list[int] = []
    disk.before_each = lambda event: (
        sizes.append(event.path.stat().st_size) if (event.what, event.path.suffix) == ("sync", ".arrow") else None
    )
    reference = journal(tmp_path, "3/counts.a.arrow", ROWS)
    assert sizes == [reference.size_bytes]
    assert reference.size_bytes == (tmp_path / reference.name).stat().st_size


def test_an_attempt_without_rows_leaves_no_file(tmp_path: Path):
    writer = open_journal(tmp_path).writer("3/counts.a.arrow")
    writer.write(ROWS.slice(0, 0))
    assert writer.close() is None
    assert os.listdir(tmp_path) == []


def test_an_aborted_attempt_leaves_no_file(tmp_path: Path):
    writer = open_journal(tmp_path).writer("3/counts.a.arrow")
    writer.abort()
    writer.write(ROWS)
    writer.abort()
    writer.abort()
    assert os.listdir(tmp_path / "3") == []


def test_an_abort_after_the_close_keeps_the_file_that_a_record_may_name(tmp_path: Path):
    writer = open_journal(tmp_path).writer("3/counts.a.arrow")
    writer.write(ROWS)
    reference = writer.close()
    writer.abort()
    assert reference is not None
    assert list(open_journal(tmp_path).read(reference)) == [ROWS]


def test_a_repeated_attempt_cannot_cut_the_journal_that_stands(tmp_path: Path):
    reference = journal(tmp_path, "3/counts.a.arrow", ROWS)
    again = open_journal(tmp_path).writer("3/counts.a.arrow")
    with pytest.raises(TidegateError, match="File exists"):
        again.write(MORE_ROWS)
    again.abort()
    assert list(open_journal(tmp_path).read(reference)) == [ROWS]


def test_every_cut_of_the_file_is_refused_before_any_row(tmp_path: Path):
    reference = journal(tmp_path, "3/counts.a.arrow", ROWS, MORE_ROWS)
    whole = (tmp_path / reference.name).read_bytes()
    for length in range(len(whole)):
        (tmp_path / reference.name).write_bytes(whole[:length])
        assert_corrupt(tmp_path, reference)


def test_every_changed_byte_of_the_file_is_refused_before_any_row(tmp_path: Path):
    reference = journal(tmp_path, "3/counts.a.arrow", ROWS, MORE_ROWS)
    whole = (tmp_path / reference.name).read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x01
        (tmp_path / reference.name).write_bytes(changed)
        assert_corrupt(tmp_path, reference)


def test_more_bytes_than_were_written_are_refused(tmp_path: Path):
    reference = journal(tmp_path, "3/counts.a.arrow", ROWS)
    with open(tmp_path / reference.name, "ab") as file:
        file.write(b"\x00")
    with pytest.raises(TidegateError, match=f"found: +{reference.size_bytes + 1} bytes"):
        open_journal(tmp_path).read(reference)


def test_a_missing_journal_is_told_apart_from_a_torn_one(tmp_path: Path):
    reference = JournalRef(name="3/counts.a.arrow", rows=12, size_bytes=1, checksum="sha256:00")
    with pytest.raises(JournalMissing, match=r"(?s)a journal with 12 rows.*3/counts\.a\.arrow") as caught:
        open_journal(tmp_path).read(reference)
    assert caught.value.code == "TG-TRANSACTION-LOST"


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "TG-STORAGE-FULL"), (errno.EIO, "TG-STORAGE-UNUSABLE")])
def test_a_journal_that_cannot_be_synced_gives_no_reference_and_can_be_aborted(
    number: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    writer = open_journal(tmp_path).writer("3/counts.a.arrow")
    writer.write(ROWS)
    disk = FsRecorder(monkeypatch, below=tmp_path)
    disk.fail("sync", number, named=".arrow")
    with pytest.raises(TidegateError) as caught:
        writer.close()
    assert caught.value.code == code
    writer.abort()
    assert os.listdir(tmp_path / "3") == []


def test_epochs_are_listed_as_numbers_and_only_those(tmp_path: Path):
    for epoch in (2, 10, 1):
        journal(tmp_path, f"{epoch}/counts.a.arrow", ROWS)
    open_journal(tmp_path).delete_through(0)
    assert open_journal(tmp_path).epochs() == [1, 2, 10]
    assert open_journal(tmp_path / "none").epochs() == []


def test_deleting_takes_the_epochs_up_to_one_or_from_one_on(tmp_path: Path):
    for epoch in range(8):
        journal(tmp_path, f"{epoch}/counts.a.arrow", ROWS)
    open_journal(tmp_path).delete_through(2)
    assert open_journal(tmp_path).epochs() == [3, 4, 5, 6, 7]
    open_journal(tmp_path).delete_from(6)
    assert open_journal(tmp_path).epochs() == [3, 4, 5]
    open_journal(tmp_path).delete_through(2)
    open_journal(tmp_path).delete_from(6)
    open_journal(tmp_path / "none").delete_from(0)
    assert open_journal(tmp_path).epochs() == [3, 4, 5]
    assert list((tmp_path / ".trash").iterdir()) == []


def test_an_epoch_leaves_by_one_rename_and_what_a_kill_left_in_the_trash_goes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    journal(tmp_path, "1/counts.a.arrow", ROWS)
    journal(tmp_path, "1/counts.b.arrow", ROWS)
    with monkeypatch.context() as patches:
        disk = FsRecorder(patches, below=tmp_path)
        disk.fail("unlink", errno.EINTR)
        with pytest.raises(TidegateError):
            open_journal(tmp_path).delete_through(1)
    assert open_journal(tmp_path).epochs() == []
    assert len(list((tmp_path / ".trash").glob("1-*/*"))) == 2
    open_journal(tmp_path).delete_through(1)
    assert list((tmp_path / ".trash").iterdir()) == []


def journal(folder: Path, name: str, *batches: pa.RecordBatch) -> JournalRef:
    writer = open_journal(folder).writer(name)
    for batch in batches:
        writer.write(batch)
    reference = writer.close()
    assert reference is not None
    return reference


def assert_corrupt(folder: Path, reference: JournalRef) -> None:
    with pytest.raises(TidegateError) as caught:
        open_journal(folder).read(reference)
    assert caught.value.code == "TG-RECORD-CORRUPT"
    assert caught.value.where == str(folder / reference.name)
