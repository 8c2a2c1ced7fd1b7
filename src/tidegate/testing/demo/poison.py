"""The demo with one record that the table refuses ("poisoned"): it must end up in the dead letters."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager

import msgspec

from tidegate.core.json_formats import parsed
from tidegate.testing.checker import InputLine
from tidegate.testing.demo.child import POISON
from tidegate.testing.demo.ends import FileEnds, json_rows
from tidegate.testing.demo.places import Places

TEXT = "poisoned record"


def with_poison(texts: Sequence[str]) -> list[str]:
    """The lines, with the middle one replaced by the poisoned record."""
    middle = len(texts) // 2
    return [*texts[:middle], TEXT, *texts[middle + 1 :]]


class PoisonedEnds(FileEnds):
    """Files as input and output, and an existing SQLite table of lines that refuses the poisoned record."""

    def __init__(self, places: Places) -> None:
        super().__init__(places)
        self._numbered = places.numbered

    @contextmanager
    def ready(self) -> Generator[None]:
        self._numbered.parent.mkdir(parents=True)
        with closing(sqlite3.connect(self._numbered)) as owner:
            owner.execute(f"CREATE TABLE lines (number INTEGER PRIMARY KEY, text TEXT CHECK (text <> '{TEXT}'))")
        with super().ready():
            yield

    def environment(self) -> Mapping[str, str]:
        return {POISON: "1"}


class Poisoned(msgspec.Struct, frozen=True, kw_only=True):
    """The result for the poisoned record. `flaw`: a description of what is wrong; empty if nothing is."""

    dead_letters: int
    flaw: str


def look_at_poison(places: Places, lines: Sequence[InputLine]) -> Poisoned:
    """Check that the table has every other line once, and that the dead letters have the poisoned line once."""
    with closing(sqlite3.connect(places.numbered)) as reader:
        table = sorted(InputLine(number, text) for number, text in reader.execute("SELECT number, text FROM lines"))
    letters = [row for row, _ in json_rows(places.dead_letters)]
    dead = [parsed(row["row"], dict[str, object]) for row in letters]
    flaw = ""
    if table != sorted(line for line in lines if line.text != TEXT):
        flaw = f"the table of lines has {len(table)} rows, and not every line but the poisoned one"
    elif dead != [{"number": line.number, "text": line.text} for line in lines if line.text == TEXT]:
        flaw = f"the dead letters are {letters}, and not the poisoned record"
    return Poisoned(dead_letters=len(letters), flaw=flaw)
