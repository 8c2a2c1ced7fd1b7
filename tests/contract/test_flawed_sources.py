"""The contract suite of sources proves itself: every planted flaw fails exactly the tests that name it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from tidegate.source_api import Position, Range, Replay, RowSource, Source, Traits
from tidegate.testing import source_contract
from tidegate.testing.contract_parts import SCHEMA
from tidegate.testing.source_contract import Row, SourceContract
from tidegate.testing.source_readings import DirectReading, SourceReading

TESTS = sorted(name for name in dir(SourceContract) if name.startswith("test_"))
TOKEN = "hunter2"
_FILE = "rows"


class Lines(RowSource):
    """Without a flaw: the lines of a file, to which lines are only ever appended."""

    kind: ClassVar[str] = "lines"
    traits: ClassVar[Traits] = Traits(Replay.EXACT)
    reading: ClassVar[type[DirectReading]] = DirectReading
    names: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, folder: Path, token: str = "") -> None:
        self.folder = folder
        self.token = token

    def schema(self) -> pa.Schema:
        return SCHEMA

    def oldest(self) -> Position:
        return {_FILE: 0}

    def newest(self) -> Position:
        return {_FILE: len(self.lines())}

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        rows = [json.loads(line) for line in self.lines()[wanted.begin : wanted.end]]
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)

    def describe(self) -> Mapping[str, object]:
        return {"folder": str(self.folder), "left_out": ["token"]}

    @classmethod
    def from_description(cls, described: Mapping[str, object], options: Mapping[str, str]) -> Source:
        return cls(Path(str(described["folder"])), options["token"])

    def lines(self) -> list[str]:
        file = self.folder / _FILE
        return file.read_text().splitlines() if file.exists() else []


class KeepsTheNewestRows(Lines):
    """Says that rows can be read again, and drops the oldest ones without an error."""

    names = frozenset({"test_what_was_read_is_read_again"})

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        kept = max(0, len(self.lines()) - 5)
        return super().read(Range(wanted.part, max(wanted.begin, kept), max(wanted.end, kept)))


class OrdersAnewAtEachStart(Lines):
    """Gives the same rows at the next start, in another order."""

    names = frozenset({"test_what_was_read_is_read_again"})
    _starts: ClassVar[Iterator[int]] = count()

    def __init__(self, folder: Path, token: str = "") -> None:
        super().__init__(folder, token)
        self.start = next(self._starts)

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        for batch in super().read(wanted):
            order = range(batch.num_rows)
            yield batch.take(pa.array(order if self.start % 2 else reversed(order), pa.int64()))


class ReadsOneTooMany(Lines):
    """Gives the row at the end of a range too, where it is there by now."""

    names = frozenset({"test_what_was_read_is_read_again"})

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        return super().read(Range(wanted.part, wanted.begin, wanted.end + 1))


class GoesBackWhenIdle(Lines):
    """Forgets the last row when it is asked several times and no row comes, as a replica that lags behind does."""

    names = frozenset({"test_the_end_of_an_epoch_never_goes_back"})
    _patience: ClassVar[int] = 2

    def __init__(self, folder: Path, token: str = "") -> None:
        super().__init__(folder, token)
        self.asked: dict[int, int] = {}

    def newest(self) -> Position:
        found = len(self.lines())
        self.asked[found] = self.asked.get(found, 0) + 1
        return {_FILE: found - 1 if found and self.asked[found] > self._patience else found}


class EndsBeforeItsStart(Lines):
    """Limits an epoch to a number of rows, and takes it for a position."""

    names = frozenset({"test_every_row_is_read_once", "test_what_was_read_is_read_again"})

    def end(self, start: Position, newest: Position) -> Position:
        return {_FILE: min(newest[_FILE], 8)}


class CountsFromItsStart(Lines):
    """Says that positions outlive the process, and counts the rows that came since the process began."""

    names = frozenset(
        {
            "test_what_was_read_is_read_again",
            "test_the_next_start_continues_where_the_last_one_has_ended",
            "test_a_stop_is_obeyed",
        }
    )

    def __init__(self, folder: Path, token: str = "") -> None:
        super().__init__(folder, token)
        self.before = len(super().lines())

    def lines(self) -> list[str]:
        return super().lines()[self.before :]


class BeginsBehindItsRows(Lines):
    """Says that a query can begin at the oldest row, and names the newest one."""

    names = frozenset({"test_it_begins_at_the_oldest_row", "test_the_end_of_an_epoch_never_goes_back"})

    def oldest(self) -> Position:
        return self.newest()


class _Deaf(DirectReading):
    def stop(self) -> None:
        pass


class IgnoresAStop(Lines):
    names = frozenset({"test_a_stop_is_obeyed"})
    reading = _Deaf


class ShowsItsToken(Lines):
    names = frozenset({"test_no_description_holds_a_secret"})

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"lines, opened with {TOKEN}"


class OpensAnotherFolder(Lines):
    names = frozenset({"test_a_description_opens_the_same_source"})

    @classmethod
    def from_description(cls, described: Mapping[str, object], options: Mapping[str, str]) -> Source:
        return cls(Path(str(described["folder"])) / "in", options["token"])


FLAWS = Lines.__subclasses__()


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of a file is there when it is asked for: a row that is missing does not come later."""
    monkeypatch.setattr(source_contract, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr(source_contract, "_PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize("source", [Lines, *FLAWS], ids=lambda source: source.__name__)
def test_a_flaw_fails_the_tests_that_name_it_and_no_other(source: type[Lines], tmp_path: Path) -> None:
    assert {test for test in TESTS if _fails(source, test, tmp_path / test)} == source.names


def test_every_test_is_named_by_a_flaw() -> None:
    unproven = set(TESTS) - {test for flaw in FLAWS for test in flaw.names}
    assert unproven == {
        # The position that begins behind the newest row is the answer that ends every epoch.
        "test_it_begins_behind_the_newest_row",
        # Between a position and itself the suite's own reading asks the source for nothing.
        "test_an_epoch_without_rows_reads_none",
        # Only behind an ingest log.
        "test_a_crash_before_rows_are_reported_done_loses_none_and_repeats_none",
    }


def _fails(source: type[Lines], test: str, folder: Path) -> bool:
    folder.mkdir()
    suite = _suite_of(source, folder)
    try:
        getattr(suite, test)()
    except pytest.skip.Exception:
        return False
    except Exception:  # noqa: BLE001  a flawed source may break a test in any way
        return True
    return False


def _suite_of(source: type[Lines], folder: Path) -> SourceContract:
    class Suite(SourceContract):
        secrets = (TOKEN,)

        def make_source(self) -> Source:
            return source(folder, TOKEN)

        def add(self, rows: Sequence[Row]) -> None:
            with (folder / _FILE).open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)

        def reading(self, source: Source) -> SourceReading:
            assert isinstance(source, Lines)
            return source.reading(source)

    suite = Suite()
    suite.folder = folder
    return suite
