"""The contract of a `Journal` as a suite of tests. Needs pytest.

class TestMyJournal(JournalContract):
    def open(self) -> Journal: ...
    def damage(self, reference: JournalRef, change: Callable[[bytes], bytes | None]) -> None: ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import JournalRef
from tidegate.storages.journal import Journal, JournalMissing, JournalWriter, journal_name
from tidegate.testing.contract_parts import attempt_of, demand, rows_from
from tidegate.testing.storage_contract import at_once


def _damages() -> dict[str, Callable[[bytes], bytes]]:
    return {
        "cut": lambda data: data[:-1],
        "longer": lambda data: data + b"\x00",
        "another byte": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
        "empty": lambda _: b"",
    }


NAME = journal_name(attempt_of(epoch=1))
"""The attempt of every test that needs but one."""


class JournalContract(ABC):
    """The tests that every `Journal` must pass.

    Inherit them in a test class named `Test...` that defines `open` and `damage`.
    """

    folder: Path
    """A folder of this test's own, for a journal that needs one."""

    @abstractmethod
    def open(self) -> Journal:
        """Open the journal of this test, which is empty when the test begins.

        Each call returns a new object for the same journal, as for a task on another machine and for the driver.
        """

    @abstractmethod
    def damage(self, reference: JournalRef, change: Callable[[bytes], bytes | None]) -> None:
        """Replace the stored bytes of this reference by `change(bytes)`, without using the journal. If it returns None,
        delete them.
        """

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def written(self, *batches: pa.RecordBatch, epoch: int = 1, task: int = 0) -> JournalRef:
        """Write these rows as one attempt and return the reference to them."""
        writer = self.open().writer(journal_name(attempt_of(epoch=epoch, task=task)))
        for batch in batches:
            writer.write(batch)
        reference = writer.close()
        if reference is None:
            raise TypeError("no rows were given")
        return reference

    def rows_are(self, reference: JournalRef, batches: Sequence[pa.RecordBatch]) -> None:
        """Fail unless the reference gives these rows, read through a new journal object."""
        found = list(self.open().read(reference))
        demand(found == list(batches), f"the rows come back as they were written, not {found}")

    # --- one attempt -----------------------------------------------------------------------------------------

    def test_the_rows_come_back_in_their_batches_and_order_wherever_it_is_opened(self) -> None:
        batches = [rows_from(0, 3), rows_from(10, 1), rows_from(20, 500)]
        reference = self.written(*batches)
        for _ in range(2):
            self.rows_are(reference, batches)
        demand(reference.name == NAME, f"the reference has the attempt's name: {reference}")
        demand(reference.rows == 504, f"and counts its rows: {reference}")

    def test_batches_without_rows_are_none(self) -> None:
        reference = self.written(rows_from(0, 0), rows_from(0, 2), rows_from(0, 0))
        self.rows_are(reference, [rows_from(0, 2)])

    def test_an_attempt_without_rows_leaves_nothing(self) -> None:
        journal = self.open()
        writer = journal.writer(NAME)
        writer.write(rows_from(0, 0))
        demand(writer.close() is None, "close gives None if no row came")
        demand(self.open().epochs() == [], "and nothing is there")

    def test_an_attempt_that_was_aborted_leaves_no_rows_and_frees_its_name(self) -> None:
        writer = self.open().writer(NAME)
        writer.abort()
        writer.write(rows_from(0, 3))
        writer.abort()
        writer.abort()
        self.rows_are(self.written(rows_from(10, 2)), [rows_from(10, 2)])

    def test_an_abort_after_the_close_keeps_what_a_record_may_name(self) -> None:
        writer = self.open().writer(NAME)
        writer.write(rows_from(0, 3))
        reference = writer.close()
        writer.abort()
        demand(reference is not None, "close gives a reference")
        if reference is not None:
            self.rows_are(reference, [rows_from(0, 3)])

    def test_an_attempt_of_the_same_name_changes_nothing_of_the_first(self) -> None:
        reference = self.written(rows_from(0, 3))
        again = self.open().writer(reference.name)
        with pytest.raises(TidegateError):
            _write_and_close(again, rows_from(10, 5))
        again.abort()
        self.rows_are(reference, [rows_from(0, 3)])

    def test_tasks_write_side_by_side(self) -> None:
        def write(task: int) -> JournalRef:
            return self.written(*(rows_from(task * 100 + turn, 1) for turn in range(20)), task=task)

        references = at_once([lambda task=task: write(task) for task in range(4)])
        for task, reference in enumerate(references):
            self.rows_are(reference, [rows_from(task * 100 + turn, 1) for turn in range(20)])

    # --- what is not whole -----------------------------------------------------------------------------------

    @pytest.mark.parametrize("kind", _damages())
    def test_what_was_changed_is_refused_before_any_row_is_given(self, kind: str) -> None:
        reference = self.written(rows_from(0, 100))
        self.damage(reference, _damages()[kind])
        with pytest.raises(TidegateError) as caught:
            self.open().read(reference)
        demand(caught.value.catalogue_entry is Code.RECORD_CORRUPT, f"it is RECORD_CORRUPT: {caught.value}")
        demand(reference.name in caught.value.where, f"the error says where it is: {caught.value.where}")

    def test_rows_of_another_attempt_are_refused(self) -> None:
        reference, other = self.written(rows_from(0, 3), task=0), self.written(rows_from(10, 3), task=1)
        with pytest.raises(TidegateError) as caught:
            self.open().read(msgspec.structs.replace(reference, name=other.name))
        demand(caught.value.catalogue_entry is Code.RECORD_CORRUPT, f"it is RECORD_CORRUPT: {caught.value}")

    def test_rows_that_are_gone_are_told_apart_from_changed_ones(self) -> None:
        reference = self.written(rows_from(0, 3))
        self.damage(reference, lambda _: None)
        with pytest.raises(JournalMissing):
            self.open().read(reference)

    # --- epochs ----------------------------------------------------------------------------------------------

    def test_whole_epochs_go_and_the_others_stay(self) -> None:
        references = {epoch: self.written(rows_from(epoch, 2), epoch=epoch) for epoch in (0, 1, 2, 9, 10, 11)}
        demand(self.open().epochs() == [0, 1, 2, 9, 10, 11], f"by number, ascending: {self.open().epochs()}")
        for _ in range(2):
            self.open().delete_through(2)
            self.open().delete_from(11)
        demand(self.open().epochs() == [9, 10], f"only those in between stay: {self.open().epochs()}")
        for epoch in (9, 10):
            self.rows_are(references[epoch], [rows_from(epoch, 2)])
        for epoch in (0, 1, 2, 11):
            with pytest.raises(JournalMissing):
                self.open().read(references[epoch])

    def test_the_rows_of_an_epoch_go_by_their_names(self) -> None:
        references = {epoch: self.written(rows_from(epoch, 2), epoch=epoch) for epoch in (1, 2)}
        for _ in range(2):
            self.open().delete_epoch(1, [references[1].name])
            self.open().delete_epoch(7, [])
        demand(self.open().epochs() == [2], f"those of the other epoch stay: {self.open().epochs()}")
        self.rows_are(references[2], [rows_from(2, 2)])

    def test_removing_from_a_journal_that_never_was_is_no_error(self) -> None:
        self.open().delete_through(7)
        self.open().delete_from(0)
        demand(self.open().epochs() == [], "it has no epochs")

    def test_what_a_killed_attempt_left_goes_with_its_epoch(self) -> None:
        killed = self.open().writer(journal_name(attempt_of(epoch=3, task=1)))
        killed.write(rows_from(0, 3))  # and no more
        self.written(rows_from(10, 3), epoch=4)
        self.open().delete_through(3)
        demand(self.open().epochs() == [4], f"nothing of its epoch is left: {self.open().epochs()}")

    def test_several_processes_may_remove_the_same_epochs_at_once(self) -> None:
        for epoch in range(12):
            self.written(rows_from(epoch, 2), epoch=epoch)
        at_once([lambda: self.open().delete_through(9)] * 4)
        self.open().delete_through(9)
        demand(self.open().epochs() == [10, 11], f"what is behind stays: {self.open().epochs()}")

    def test_every_name_has_a_place_that_a_person_can_look_for(self) -> None:
        name = NAME
        demand(self.open().where(name).endswith(name), f"a place ends with the name: {self.open().where(name)}")


def _write_and_close(writer: JournalWriter, batch: pa.RecordBatch) -> None:
    writer.write(batch)
    writer.close()
