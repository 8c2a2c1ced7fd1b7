"""A query whose output shows whether it fits its state: each word draws a random number once and keeps it."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.integration.place import Place, Row
from tests.surprises.gates import Gate
from tests.surprises.prepared import PreparedSink
from tidegate import FileSink, FileSource, Job, SQLiteSink

_STAGED = re.compile(r"\.tidegate/.*/(e\d+|trash-[^/]*)$")
SCHEMA = "word string, seen long, draw double"


def draws(words: DataFrame, gates: Path) -> DataFrame:
    """Rows (word, how often seen so far, its number). Every word that is computed comes by its gate."""

    def draw(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        computing(gates, key[0]).reach()
        seen, drawn = state.get if state.exists else (0, random.random())
        seen += sum(len(frame) for frame in frames)
        state.update((seen, drawn))
        yield pd.DataFrame({"word": [key[0]], "seen": [seen], "draw": [drawn]})

    return words.groupBy("word").applyInPandasWithState(
        draw, SCHEMA, "seen long, draw double", "update", GroupStateTimeout.NoTimeout
    )


def computing(gates: Path, word: str) -> Gate:
    """The gate that a word comes by when it is computed."""
    return Gate(gates, f"computing-{word}")


@dataclass
class DrawsJob:
    """A job of one such query into a table, files and a shelf, all in the folder of `place`, and what it published."""

    place: Place
    mode: str = "exactly-once"
    files_an_epoch: int = 2

    @property
    def gates(self) -> Path:
        return self.place.folder / "gates"

    def computing(self, word: str) -> Gate:
        return computing(self.gates, word)

    @property
    def prepared(self) -> Gate:
        """The gate behind the last sink's pre-commit."""
        return Gate(self.gates, "prepared")

    @property
    def shelf(self) -> PreparedSink:
        return PreparedSink("shelf", self.place.folder, self.prepared)

    def make(
        self, then: Callable[[DataFrame], DataFrame] = lambda rows: rows, shelf: PreparedSink | None = None
    ) -> Job:
        """The job; `then` is applied behind the state."""
        job = self.place.job(checkpointing_mode=self.mode)
        source = FileSource(
            str(self.place.input), format="json", schema="word string", maxFilesPerTrigger=self.files_an_epoch
        )
        rows = then(draws(job.source("words", source), self.gates))
        table = SQLiteSink("table", self.place.folder / "out.db", table="draws")
        files = FileSink("files", self.place.folder / "out", format="json")
        job.query("query", rows, mode="update", sinks=[table, files, shelf or self.shelf])
        return job

    def flaws(self, words: Mapping[str, int]) -> list[str]:
        """What is wrong with the three outputs, after every word came so often in all."""
        table: list[Row] = [dict(zip(("word", "seen", "draw"), row, strict=True)) for row in self.place.table("draws")]
        files = [row for rows in self.place.files().values() for row in rows]
        flaws = flaws_of(table)
        for word, often in words.items():
            seen = max((row["seen"] for row in table if row["word"] == word), default=0)
            if seen != often:
                flaws.append(f"{word} came {often} times and was seen {seen} times")
        if sorted(map(_values, table)) != sorted(map(_values, files)):
            flaws.append("the table and the files differ")
        if self.shelf.rows() != sorted(row["word"] for row in table):
            flaws.append("the table and the shelf differ")
        return flaws

    def leftovers(self) -> list[str]:
        """What a finished job may not leave: staged files and journals."""
        staged = [path for path in self.place.folder.rglob("*") if path.is_file() and _STAGED.search(str(path.parent))]
        journals = list((self.place.query() / "ledger" / "journal").glob("[0-9]*"))
        return sorted(str(path.relative_to(self.place.folder)) for path in [*staged, *journals])


def _values(row: Row) -> tuple[object, ...]:
    return (row["word"], row["seen"], row["draw"])


def flaws_of(rows: list[Row]) -> list[str]:
    """What is wrong with all published rows of a query of `draws`: repeated or missing rows, a second number."""
    by_word: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_word[row["word"]].append(row)
    flaws: list[str] = []
    for word, mine in sorted(by_word.items()):
        seen = sorted(row["seen"] for row in mine)
        if seen != list(range(1, len(seen) + 1)):
            flaws.append(f"{word} was seen {seen}")
        if len({row["draw"] for row in mine}) > 1:
            flaws.append(f"{word} has several numbers")
    return flaws
