"""The sources that tidegate ships, under the contract that it ships. (Kafka's is in tests/kafka.)"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest

from tests.support.peer import Peer
from tidegate import FileSource, SocketSource
from tidegate.checkpoints.ingest_log import IngestLog
from tidegate.source_api import Position, Range, Replay, RowSource, Source, Traits
from tidegate.sources.base import Begins
from tidegate.sources.files.globs import FileSelection
from tidegate.sources.files.listing import LocalFiles, SeenFile
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.options import FileOptions
from tidegate.sources.files.reader import FileReader, Wait
from tidegate.sources.logged import LineRows
from tidegate.storages.schemes import Folder
from tidegate.supervise.receiver import Peer as Server
from tidegate.supervise.receiver import Receiver
from tidegate.testing.contract_parts import SCHEMA
from tidegate.testing.memory_source import MemorySource
from tidegate.testing.source_contract import Row, SourceContract
from tidegate.testing.source_readings import LoggedReading, ReadingPlace, SourceReading


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
        return FilesReading(self.root, self.folder / "log")

    @property
    def root(self) -> Path:
        return self.folder / "in"


class FilesReading(SourceReading):
    def __init__(self, root: Path, log: Path) -> None:
        self._root = root
        self._log = log
        self._reader = self._opened(log, {})

    def begin(self, where: Begins) -> ReadingPlace:
        if where is Begins.NEWEST:
            there = {seen.name: seen for seen in self._files().list()}
            self._reader = self._opened(self._log.with_name("newest"), there)
        return {"logOffset": -1}

    def end(self, start: ReadingPlace) -> ReadingPlace:
        found = self._reader.latest(json.dumps(start))
        return start if found is None or isinstance(found, Wait) else json.loads(found)

    def rows(self, start: ReadingPlace, end: ReadingPlace) -> list[Row]:
        if start == end:
            return []
        paths = [Path(unquote(urlsplit(uri).path)) for uri in self._reader.batch(json.dumps(start), json.dumps(end))]
        self._reader.verify()
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def stop(self) -> None:
        self._reader.catch_up()

    def _files(self) -> LocalFiles:
        return LocalFiles(self._root, FileSelection())

    def _opened(self, folder: Path, left_out: dict[str, SeenFile]) -> FileReader:
        log = FileLog(Folder.of(folder), lambda uri: uri, "source files", 100)
        numbers = [int(file.name) for file in folder.glob("[0-9]*")] if folder.exists() else []
        log.open(max(numbers, default=-1))
        options = FileOptions(settle_seconds=0.0)
        return FileReader(options, self._files(), log, "source files", left_out=left_out)


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
        folder = self.folder / "ingest"
        log = IngestLog(folder)
        receiver = Receiver(Server("127.0.0.1", self.peer.port, 1000, "source lines"), log.append)
        return LoggedReading(log, folder, receiver, LineRows())

    def row_of(self, row: Row) -> Row:
        return json.loads(row["value"])
