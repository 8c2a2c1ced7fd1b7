"""The journals that there are, under the contract that is shipped."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pytest

from tidegate.core.errors import TidegateError
from tidegate.core.records import JournalRef
from tidegate.storages.journal import Journal
from tidegate.storages.journal_format import rows
from tidegate.storages.journals import open_journal
from tidegate.testing.contract_parts import ContractBroken
from tidegate.testing.journal_contract import JournalContract
from tidegate.testing.memory_journal import JournalFiles, MemoryJournal, MemoryJournalWriter


class TestLocalJournal(JournalContract):
    def open(self) -> Journal:
        return open_journal((self.folder / "journal").as_uri())

    def damage(self, reference: JournalRef, change: Callable[[bytes], bytes | None]) -> None:
        path = self.folder / "journal" / reference.name
        changed = change(path.read_bytes())
        path.unlink()
        if changed is not None:
            path.write_bytes(changed)


class InMemory(JournalContract):
    kept: JournalFiles

    @pytest.fixture(autouse=True)
    def _kept(self) -> None:
        self.kept = JournalFiles()

    def open(self) -> Journal:
        return MemoryJournal(self.kept)

    def damage(self, reference: JournalRef, change: Callable[[bytes], bytes | None]) -> None:
        changed = change(self.kept.files.pop(reference.name).getvalue())
        if changed is not None:
            self.kept.files[reference.name] = io.BytesIO(changed)


class TestMemoryJournal(InMemory):
    pass


# --- the suite finds what is wrong -------------------------------------------------------------------------


class Trusting(MemoryJournal):
    """Reads without a look at size and checksum."""

    def read(self, reference: JournalRef):
        return rows(io.BytesIO(self._kept.files[reference.name].getvalue()))


class ByText(MemoryJournal):
    """Compares epochs as texts."""

    def delete_through(self, epoch: int) -> None:
        self._delete(lambda each: str(each) <= str(epoch))


class Overwriting(MemoryJournalWriter):
    """A second writer of a name takes the place of the first."""

    def write(self, batch: pa.RecordBatch) -> None:
        if self._stream is None:
            self._kept.files.pop(self._name, None)
        super().write(batch)


class Unclosed(MemoryJournalWriter):
    """An abort that removes what a record may name."""

    def abort(self) -> None:
        self._is_closed = False
        super().abort()


class WrittenBy:
    """A journal whose writers are of this class."""

    def __init__(self, writer: type[MemoryJournalWriter]) -> None:
        self._writer = writer

    def __call__(self, kept: JournalFiles) -> MemoryJournal:
        flawed = MemoryJournal(kept)
        flawed.writer = lambda name: self._writer(kept, name)  # pyright: ignore[reportAttributeAccessIssue]
        return flawed


@pytest.mark.parametrize(
    ("flawed", "test", "arguments"),
    [
        (Trusting, "test_what_was_changed_is_refused_before_any_row_is_given", ("another byte",)),
        (Trusting, "test_rows_of_another_attempt_are_refused", ()),
        (ByText, "test_whole_epochs_go_and_the_others_stay", ()),
        (WrittenBy(Overwriting), "test_an_attempt_of_the_same_name_changes_nothing_of_the_first", ()),
        (WrittenBy(Unclosed), "test_an_abort_after_the_close_keeps_what_a_record_may_name", ()),
    ],
)
def test_the_suite_finds_a_journal_that_breaks_it(
    flawed: Callable[[JournalFiles], MemoryJournal], test: str, arguments: tuple[str, ...]
) -> None:
    class Suite(InMemory):
        def open(self) -> Journal:
            return flawed(self.kept)

    suite = Suite()
    suite.kept = JournalFiles()
    with pytest.raises((ContractBroken, pytest.fail.Exception, TidegateError)):
        getattr(suite, test)(*arguments)
