"""The sinks that tidegate ships, under the contract that it ships."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq

from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.files import FileSink
from tidegate.sinks.sqlite import SQLiteSink
from tidegate.testing.contract import Row, SinkContract
from tidegate.testing.memory import MemorySink


def rows_of_table(database: Path) -> list[Row]:
    with closing(sqlite3.connect(database)) as reader:
        return [{"id": number, "word": word} for number, word in reader.execute("SELECT id, word FROM numbers")]


def rows_of_json(folder: Path) -> list[Row]:
    return [json.loads(line) for file in folder.glob("**/*.json") for line in file.read_text().splitlines()]


class TestSQLiteAppend(SinkContract):
    def make_sink(self) -> TwoPhaseSink:
        return SQLiteSink("numbers", self.folder / "target.db", table="numbers")

    def read_target(self) -> list[Row]:
        return rows_of_table(self.folder / "target.db")


class TestSQLiteUpsert(SinkContract):
    def make_sink(self) -> TwoPhaseSink:
        return SQLiteSink("numbers", self.folder / "target.db", table="numbers", key="id")

    def read_target(self) -> list[Row]:
        return rows_of_table(self.folder / "target.db")


class TestParquetFiles(SinkContract):
    def make_sink(self) -> TwoPhaseSink:
        return FileSink("numbers", self.folder / "target")

    def read_target(self) -> list[Row]:
        files = (self.folder / "target").glob("**/*.parquet")
        return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


class TestJSONFiles(SinkContract):
    def make_sink(self) -> TwoPhaseSink:
        return FileSink("numbers", self.folder / "target", format="json")

    def read_target(self) -> list[Row]:
        return rows_of_json(self.folder / "target")


class TestMemory(SinkContract):
    lives_in_one_process = True

    def set_up(self, folder: Path) -> None:
        super().set_up(folder)
        self.sink = MemorySink("numbers")

    def make_sink(self) -> TwoPhaseSink:
        return self.sink

    def read_target(self) -> list[Row]:
        return self.sink.rows
