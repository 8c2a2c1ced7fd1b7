"""A source of a package of its own: rows that are dropped as files into a folder, one part for each sender.

It is written as an author outside the project writes one: with `tidegate.source_api` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from tidegate.source_api import Finding, Position, Range, Replay, RowSource, Source, Traits, ok

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])


class Drops(RowSource):
    """`<folder>/<sender>.jsonl` has the rows of one sender, one a line; lines are only ever appended."""

    kind: ClassVar[str] = "drops"
    traits: ClassVar[Traits] = Traits(Replay.EXACT)

    def __init__(self, folder: str | Path, *, token: str = "") -> None:
        self.folder = Path(folder)
        self.token = token

    def schema(self) -> pa.Schema:
        return SCHEMA

    def oldest(self) -> Position:
        return {file.stem: 0 for file in self._files()}

    def newest(self) -> Position:
        return {file.stem: file.read_bytes().count(b"\n") for file in self._files()}

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        lines = (self.folder / f"{wanted.part}.jsonl").read_text().splitlines()[wanted.begin : wanted.end]
        if len(lines) < wanted.end - wanted.begin:
            raise OSError(f"{wanted.part}.jsonl has lost rows")
        yield pa.RecordBatch.from_pylist([json.loads(line) for line in lines], schema=SCHEMA)

    def describe(self) -> Mapping[str, object]:
        return {"folder": str(self.folder.absolute()), "left_out": ["token"] if self.token else []}

    @classmethod
    def from_description(cls, described: Mapping[str, object], options: Mapping[str, str]) -> Source:
        return cls(str(described["folder"]), token=options.get("token", ""))

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"drops in {described['folder']}"

    def probe(self, what: str) -> Sequence[Finding]:
        return [ok(what, f"{sum(self.newest().values())} rows in {self.folder}")]

    def _files(self) -> Sequence[Path]:
        return sorted(self.folder.glob("*.jsonl"))
