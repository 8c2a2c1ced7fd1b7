"""The input and the output of the demo as files. The module `topic_ends` has them as topics."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tidegate.core.spark_log import log_offset
from tidegate.testing.checker import Batches, InputLine, SinkContents
from tidegate.testing.demo.outputs import as_change, as_line, read_table, rows_of
from tidegate.testing.demo.places import Places


class Programs(NamedTuple):
    """The files of the driver programs for these ends: with tidegate, and in plain PySpark."""

    exact: str
    plain: str


class Ends(Protocol):
    """Input and output of the demo's job."""

    programs: Programs
    ahead: int
    """Maximum number of batches that wait at the input."""

    def ready(self) -> AbstractContextManager[None]:
        """A context that starts the needed resources, such as a broker, and stops them at its end."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Environment variables of the driver program."""
        ...

    def put(self, batch: Sequence[InputLine]) -> None:
        """Add the next batch, atomically."""
        ...

    def batches_to(self, position: str | None) -> int:
        """The number of batches that a query has read completely up to this position of its source."""
        ...

    def epochs(self, positions: Sequence[str | None]) -> Batches:
        """The lines of each epoch.

        `positions`: the end of each epoch. Lines after the last position are the last element.
        """
        ...

    def read(self) -> SinkContents:
        """Every record that is visible in the three sinks now."""
        ...


class FileEnds:
    """Input and output as files in folders. A batch is one file, which is renamed into the input folder."""

    programs = Programs("exact.py", "plain.py")
    ahead = 4

    def __init__(self, places: Places) -> None:
        self._places = places
        self._batches: list[Sequence[InputLine]] = []
        self._began_ns = time.time_ns()

    @contextmanager
    def ready(self) -> Generator[None]:
        self._places.input.mkdir()
        yield

    def environment(self) -> Mapping[str, str]:
        return {}

    def put(self, batch: Sequence[InputLine]) -> None:
        number, folder = len(self._batches), self._places.input
        hidden = folder / f".{number:05}.json"
        rows = [json.dumps({"number": line.number, "text": line.text}) for line in batch]
        hidden.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        # Spark reads files in the order of their times, which it knows in milliseconds: no two may be equal.
        arrived = self._began_ns + number * 1_000_000
        os.utime(hidden, ns=(arrived, arrived))
        hidden.rename(folder / f"{number:05}.json")
        self._batches.append(batch)

    def batches_to(self, position: str | None) -> int:
        """The batches up to this position. The file source reads one file for each entry of its own log."""
        newest = log_offset(position)
        return 0 if newest is None else newest + 1

    def epochs(self, positions: Sequence[str | None]) -> Batches:
        edges = sorted({0, *map(self.batches_to, positions), len(self._batches)})
        return [[line for batch in self._batches[start:end] for line in batch] for start, end in pairwise(edges)]

    def read(self) -> SinkContents:
        return SinkContents(
            lines=[as_line(row, text) for row, text in json_rows(self._places.lines)],
            changes=[as_change(row, text) for row, text in json_rows(self._places.changes)],
            table=read_table(self._places.table),
        )


def json_rows(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The rows of all visible files. Files whose names begin with `.` or `_` are hidden, as for Spark."""
    for file in sorted(folder.glob("[!._]*.json")):
        # Not `splitlines`: a JSON text may have other line separators of Unicode in it.
        yield from rows_of(filter(None, file.read_text(encoding="utf-8").split("\n")))
