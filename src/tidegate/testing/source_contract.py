"""The contract of a source as a suite of tests. Needs pytest.

    class TestMySource(SourceContract):
        def make_source(self) -> Source:
            return MySource(self.folder / "input")

        def add(self, rows: Sequence[Row]) -> None:
            ...  # write rows {"id": 1, "word": "w1"} to where the source reads

The suite tests what a job relies on: positions only grow; a range that is read again gives the same rows; the end of an
epoch stays where it is; no row that arrives after a stop is read; a description opens the same source and holds no
secret.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest

from tidegate.sources.base import Absence, Begins, Position, Replay, RowSource, Source, Traits
from tidegate.testing.contract_parts import PATIENCE_SECONDS, ContractBroken, Row, demand
from tidegate.testing.source_readings import DirectReading, LoggedReading, ReadingPlace, SourceReading

__all__ = ["Row", "SourceContract", "numbered"]

BEHIND_A_LOG = Traits(Replay.EXACT, Begins.EITHER, Absence.KEPT)
"""What an ingest log makes of any source, but for rows that come while nothing fills it."""
_PAUSE_SECONDS = 0.01


def numbered(first: int, count: int) -> list[Row]:
    """`count` rows of the suite, numbered from `first`. `id` is unique in a test, and `word` is made from it."""
    return [{"id": number, "word": f"w{number}"} for number in range(first, first + count)]


class SourceContract(ABC):
    """The tests that every `RowSource` must pass.

    Inherit them in a test class named `Test...` that defines `make_source` and `add`.
    """

    secrets: ClassVar[Sequence[str]] = ()
    """Texts that `make_source` gives to the source and that no description may show."""

    folder: Path
    """An empty folder for each test."""

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @abstractmethod
    def make_source(self) -> Source:
        """Make a new source object. All source objects of one test read the same input."""

    @abstractmethod
    def add(self, rows: Sequence[Row]) -> None:
        """Add rows to the input of the source.

        `numbered` shows what they look like. The source may have other columns: see `row_of`. The input is empty before
        the first call.
        """

    def reading(self, source: Source) -> SourceReading:
        """How a query reads the source. Override it if your source is not a `RowSource`."""
        if not isinstance(source, RowSource):
            raise ContractBroken("the suite reads a RowSource by itself: override `reading` for another source")
        if source.traits.replay is Replay.EXACT:
            return DirectReading(source)
        return LoggedReading.of(source, self.folder / "ingest" / "source")

    def traits(self, source: Source) -> Traits:
        """The traits that the reading must have: those of a source with an ingest log, if the source cannot be read
        again.
        """
        traits = source.traits
        return traits if traits.replay is Replay.EXACT else Traits(Replay.EXACT, Begins.EITHER, traits.absence)

    def row_of(self, row: Row) -> Row:
        """Return the added row of `row`: the suite added it, and the source read it as `row`.

        Override this if the source adds or converts columns.
        """
        return row

    # --- positions -------------------------------------------------------------------------------------------

    def test_every_row_is_read_once(self) -> None:
        """Rows are added three times. The epochs of each time begin where the last epoch ended."""
        with self.opened() as reading:
            start, seen = reading.begin(Begins.OLDEST), list[Row]()
            for first in (0, 10, 20):
                self.add(numbered(first, 3))
                epochs = self.epochs(reading, start, 3)
                seen += self.read(reading, epochs)
                start = epochs[-1]
        _same(seen, [*numbered(0, 3), *numbered(10, 3), *numbered(20, 3)], "each row is read once")

    def test_the_end_of_an_epoch_never_goes_back(self) -> None:
        """Without new rows the end stays the same. New rows move the end forward, and no older row is read again."""
        with self.opened() as reading:
            self.add(numbered(0, 3))
            first = self.epochs(reading, reading.begin(Begins.OLDEST), 3)[-1]
            for _ in range(3):
                demand(reading.end(first) == first, f"an idle source stays at {first}, not {reading.end(first)}")
            self.add(numbered(10, 2))
            _same(self.read(reading, self.epochs(reading, first, 2)), numbered(10, 2), "no row before an end is read")

    def test_an_epoch_without_rows_reads_none(self) -> None:
        with self.opened() as reading:
            start = reading.begin(Begins.OLDEST)
            self.add(numbered(0, 2))
            end = self.epochs(reading, start, 2)[-1]
            demand(self.read(reading, [end, end]) == [], "between a position and itself there is no row")

    def test_what_was_read_is_read_again(self) -> None:
        """The same epochs give the same rows after more rows were added, and with another source object, as after a
        crash.
        """
        with self.opened() as reading:
            start = reading.begin(Begins.OLDEST)
            self.add(numbered(0, 5))
            epochs = self.epochs(reading, start, 5)
            before = self.read(reading, epochs)
            self.add(numbered(10, 5))
            self.epochs(reading, epochs[-1], 5)
            demand(self.read(reading, epochs) == before, "an epoch has the same rows, in the same order, again")
        with self.opened() as again:
            demand(self.read(again, epochs) == before, "an epoch has the same rows at the next start")

    def test_the_next_start_continues_where_the_last_one_has_ended(self) -> None:
        with self.opened() as reading:
            start = reading.begin(Begins.OLDEST)
            self.add(numbered(0, 3))
            end = self.epochs(reading, start, 3)[-1]
        with self.opened() as again:
            demand(again.end(end) == end, "no row that was read comes again")
            self.add(numbered(10, 2))
            _same(self.read(again, self.epochs(again, end, 2)), numbered(10, 2), "the rows behind it come")

    # --- where it begins and ends ------------------------------------------------------------------------------

    def test_it_begins_at_the_oldest_row(self) -> None:
        with self.opened() as reading:
            if self.traits_of_reading.begins is Begins.NEWEST:
                pytest.skip("the source declares that it begins behind its newest row")
            self.add(numbered(0, 3))
            start = reading.begin(Begins.OLDEST)
            epochs = self.epochs(reading, start, 3)
            _same(self.read(reading, epochs), numbered(0, 3), "the oldest position is before all rows")

    def test_it_begins_behind_the_newest_row(self) -> None:
        with self.opened() as reading:
            if self.traits_of_reading.begins is Begins.OLDEST:
                pytest.skip("the source declares that it begins at its oldest row")
            oldest = reading.begin(Begins.OLDEST)
            self.add(numbered(0, 3))
            self.epochs(reading, oldest, 3)
            start = reading.begin(Begins.NEWEST)
            self.add(numbered(10, 2))
            found = self.read(reading, self.epochs(reading, start, 2))
            _same(found, numbered(10, 2), "the newest position is behind all rows that are there")

    def test_a_stop_is_obeyed(self) -> None:
        """No row that is added after the stop is read. If the source keeps such rows, the next start reads them."""
        with self.opened() as reading:
            start = reading.begin(Begins.OLDEST)
            self.add(numbered(0, 3))
            end = self.epochs(reading, start, 3)[-1]
            reading.stop()
            self.add(numbered(10, 2))
            demand(self.settled(reading, end) == end, "a stopped source gives no row that came later")
            kept = self.traits_of_reading.absence is Absence.KEPT
        if kept:
            with self.opened() as again:
                found = self.read(again, self.epochs(again, end, 2))
                _same(found, numbered(10, 2), "rows that came meanwhile are read at the next start")

    # --- behind an ingest log ----------------------------------------------------------------------------------

    def test_a_crash_before_rows_are_reported_done_loses_none_and_repeats_none(self) -> None:
        """The process ends when rows are in the ingest log, before `done` was called for them."""
        source = self.make_source()
        if source.traits.replay is not Replay.FORWARD or not isinstance(source, RowSource):
            pytest.skip("only where positions outlive the process and rows do not")
        source.done = _dies
        self.add(numbered(0, 3))
        killed = LoggedReading.of(source, self.folder / "ingest" / "source")
        start = killed.begin(Begins.OLDEST)
        self.epochs(killed, start, 3)
        killed.close()
        with self.opened() as again:
            self.add(numbered(10, 2))
            found = self.read(again, self.epochs(again, start, 5))
            _same(found, [*numbered(0, 3), *numbered(10, 2)], "each row is in the log once")

    # --- descriptions ------------------------------------------------------------------------------------------

    def test_a_description_opens_the_same_source(self) -> None:
        """A source that is opened from its description, after a round trip through JSON, has the same description and
        traits.
        """
        source = self.make_source()
        if not source.kind:
            pytest.skip("the source has no kind: only the program opens it")
        described = json.loads(json.dumps(source.describe()))
        options = dict.fromkeys(described.get("left_out", ()), "secret")
        opened = type(source).from_description(described, options)
        demand(json.loads(json.dumps(opened.describe())) == described, "the opened source describes itself alike")
        demand(opened.traits == source.traits, "the opened source has the same traits")
        demand(bool(type(source).told(described)), "`told` says what the source is")
        findings = opened.probe("source")
        demand(bool(findings) and all(each.what == "source" for each in findings), "`probe` says how the source is")

    def test_no_description_holds_a_secret(self) -> None:
        source = self.make_source()
        described = source.describe()
        shown = [json.dumps(described), type(source).told(described) if source.kind else ""]
        for secret in self.secrets:
            demand(not any(secret in text for text in shown), "no secret is in a description")
        left_out = described.get("left_out", ())
        demand(len(list(left_out or ())) >= len(self.secrets), "`left_out` names each secret")  # type: ignore[arg-type]

    # --- what the tests stand on ---------------------------------------------------------------------------------

    @contextmanager
    def opened(self) -> Generator[SourceReading]:
        """A reading with a new source object, as after a start.

        It is asked only for ends after the last one, as by Spark.
        """
        source = self.make_source()
        self.traits_of_reading = self.traits(source)
        reading = self.reading(source)
        try:
            yield reading
        finally:
            reading.close()

    def read(self, reading: SourceReading, epochs: Sequence[ReadingPlace]) -> list[Row]:
        """The rows of consecutive epochs, as they were added.

        `epochs`: the begin of the first epoch, then the end of each.
        """
        found = [reading.rows(start, end) for start, end in pairwise(epochs)]
        return [self.row_of(row) for rows in found for row in rows]

    def epochs(self, reading: SourceReading, start: ReadingPlace, count: int) -> list[ReadingPlace]:
        """Epochs from `start` that together have `count` rows: the begin of the first epoch, then the end of each."""
        deadline, found, rows = time.monotonic() + PATIENCE_SECONDS, [start], 0
        while rows < count:
            end = reading.end(found[-1])
            if end == found[-1]:
                demand(time.monotonic() < deadline, f"{count} rows come within {PATIENCE_SECONDS} s, not {rows}")
                time.sleep(_PAUSE_SECONDS)
                continue
            rows += len(reading.rows(found[-1], end))
            found.append(end)
        demand(rows == count, f"{count} rows come, not {rows}")
        return found

    def settled(self, reading: SourceReading, start: ReadingPlace) -> ReadingPlace:
        """The end of an epoch after it no longer changes: the source is asked several times."""
        end = start
        for _ in range(_QUESTIONS):
            end = reading.end(end)
            time.sleep(_PAUSE_SECONDS)
        return end


_QUESTIONS = 10


def _dies(position: Position) -> None:
    raise SystemError("killed")


def _same(found: Sequence[Row], expected: Sequence[Row], rule: str) -> None:
    """Fail unless these are the expected rows, in any order, because tasks read in parallel.

    `rule`: for the message.
    """
    in_order = sorted(found, key=lambda row: row["id"])
    demand(in_order == sorted(expected, key=lambda row: row["id"]), f"{rule}: {in_order}, not {list(expected)}")
