"""The note that an epoch was cut off, on a disk that does not answer."""

from __future__ import annotations

import threading

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.spark import overdue_note
from tidegate.spark.overdue_note import OverdueNote


def test_a_run_ends_although_the_disk_hangs_on_which_it_notes_why(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(overdue_note, "NOTE_WRITTEN_WITHIN_SECONDS", 0.01)
    disk_answers = threading.Event()
    errors: list[BaseException] = []

    def write(epoch: int, seconds: float) -> None:
        disk_answers.wait(30)

    note = OverdueNote(write, errors.append)
    note.begin(3, 60.0)
    try:
        with pytest.raises(TidegateError) as caught:
            note.wait()
        assert caught.value.catalogue_entry is Code.STORAGE_UNUSABLE
    finally:
        disk_answers.set()
    assert not errors


def test_a_note_that_was_written_holds_nothing_up():
    kept: list[tuple[int, float]] = []
    note = OverdueNote(lambda epoch, seconds: kept.append((epoch, seconds)), lambda error: None)
    note.wait()
    note.begin(3, 60.0)
    note.wait()
    assert kept == [(3, 60.0)]
