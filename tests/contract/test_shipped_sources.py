"""The sources that tidegate ships, under the contract that it ships. (Kafka's is in tests/kafka.)"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest

from tests.support.file_reading import FilesReading
from tests.support.peer import Peer
from tidegate import FileSource, SocketSource
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.source_api import Position, Range, Replay, RowSource, Source, Traits
from tidegate.sources.files.globs import FileSelection
from tidegate.sources.files.listing import LocalFiles
from tidegate.sources.logged import LineRows
from tidegate.supervise.receiver import Peer as Server
from tidegate.supervise.receiver import Receiver
from tidegate.testing.contract_parts import SCHEMA
from tidegate.testing.memory_source import MemorySource
from tidegate.testing.source_contract import Row, SourceContract
from tidegate.testing.source_readings import LoggedReading, SourceReading


class TestMemory(SourceContract):
    """Given once, and read through an ingest log."""

    @pytest.fixture(autouse=True)
    def _rows(self) -> None:
        self.rows = MemorySource(SCHEMA)

    def make_source(self) -> Source:
        return self.rows

    def add(self, rows: Sequence[Row]) -> None:
        self.rows.add(rows)


class Queue(RowSource):
    """A queue that forgets what was acknowledged: the rows of a file from the number in *acknowledged* on."""

    traits: ClassVar[Traits] = Traits(Replay.FORWARD)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def schema(self) -> pa.Schema:
        return SCHEMA

    def oldest(self) -> Position:
        file = self.folder / "acknowledged"
        return {"queue": int(file.read_text()) if file.exists() else 0}

    def newest(self) -> Position:
        return {"queue": len(self._lines())}

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        if wanted.begin < self.oldest()["queue"]:
            raise OSError("these rows were acknowledged")
        for line in self._lines()[wanted.begin : wanted.end]:
            yield pa.RecordBatch.from_pylist([json.loads(line)], schema=SCHEMA)

    def done(self, position: Position) -> None:
        (self.folder / "acknowledged").write_text(str(position["queue"]))

    def _lines(self) -> list[str]:
        file = self.folder / "rows"
        return file.read_text().splitlines() if file.exists() else []


class TestQueue(SourceContract):
    """Positions outlive the process, and rows are given once."""

    def make_source(self) -> Source:
        return Queue(self.folder / "queue")

    def add(self, rows: Sequence[Row]) -> None:
        with (self.folder / "queue" / "rows").open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


class TestFiles(SourceContract):
    """What Spark asks a file source, and the rows of the files that it names."""

    def make_source(self) -> Source:
        self.root.mkdir(exist_ok=True)
        return FileSource(str(self.root), format="json")

    def add(self, rows: Sequence[Row]) -> None:
        hidden = self.root / ".draft"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(self.root / f"{rows[0]['id']:03}.json")

    def reading(self, source: Source) -> SourceReading:
        files = partial(LocalFiles, self.root, FileSelection())
        return FilesReading(files, lambda uri: Path(unquote(urlsplit(uri).path)).read_text(), self.folder / "log")

    @property
    def root(self) -> Path:
        return self.folder / "in"


class TestSocket(SourceContract):
    """Lines that an ingest log keeps."""

    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        with ExitStack() as stack:
            self.peer = stack.enter_context(Peer())
            yield

    def make_source(self) -> Source:
        return SocketSource("127.0.0.1", self.peer.port, durable=True)

    def add(self, rows: Sequence[Row]) -> None:
        self.peer.send("".join(json.dumps(row) + "\n" for row in rows).encode())

    def reading(self, source: Source) -> SourceReading:
        log = SegmentLog(self.folder / "ingest")
        peer = Server("127.0.0.1", self.peer.port, 1000, "source lines")
        return LoggedReading(log, Receiver(peer, log.append, log.gather_seconds), LineRows())

    def row_of(self, row: Row) -> Row:
        return json.loads(row["value"])
