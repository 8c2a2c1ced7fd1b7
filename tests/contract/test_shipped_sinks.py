"""The sinks that tidegate ships, under the contract that it ships."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq

from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.sqlite.sink import SQLiteSink
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


class TestCSVFiles(SinkContract):
    def make_sink(self) -> TwoPhaseSink:
        return FileSink("numbers", self.folder / "target", format="csv", header=True)

    def read_target(self) -> list[Row]:
        files = (self.folder / "target").glob("*.csv")
        rows = [row for file in files for row in csv.DictReader(file.read_text().splitlines())]
        return [{"id": int(row["id"]), "word": row["word"]} for row in rows]


class TestPartitionedTextFiles(SinkContract):
    """The text files have the words; the folders have the ids, one each."""

    def make_sink(self) -> TwoPhaseSink:
        return FileSink("numbers", self.folder / "target", format="text", partition_by="id")

    def read_target(self) -> list[Row]:
        files = (self.folder / "target").glob("id=*/*.txt")
        return [
            {"id": int(file.parent.name.removeprefix("id=")), "word": word}
            for file in files
            for word in file.read_text().splitlines()
        ]


class TestSmallParquetFiles(SinkContract):
    """A new file for every row."""

    def make_sink(self) -> TwoPhaseSink:
        return FileSink("numbers", self.folder / "target", max_file_rows=1)

    def read_target(self) -> list[Row]:
        files = [pq.ParquetFile(file).read().to_pylist() for file in (self.folder / "target").glob("*.parquet")]
        assert all(len(rows) == 1 for rows in files)
        return [row for rows in files for row in rows]


class TestMemory(SinkContract):
    lives_in_one_process = True

    def set_up(self, folder: Path) -> None:
        super().set_up(folder)
        self.sink = MemorySink("numbers")

    def make_sink(self) -> TwoPhaseSink:
        return self.sink

    def read_target(self) -> list[Row]:
        return self.sink.rows


SHIPPED: list[type[SinkContract]] = [
    TestSQLiteAppend,
    TestSQLiteUpsert,
    TestParquetFiles,
    TestJSONFiles,
    TestCSVFiles,
    TestPartitionedTextFiles,
    TestSmallParquetFiles,
    TestMemory,
]
"""Every sink that needs no Spark session; `tests.contract.table` shows them."""


def test_every_sink_is_listed() -> None:
    here = {each for each in globals().values() if isinstance(each, type) and issubclass(each, SinkContract)}
    assert here - {SinkContract} == set(SHIPPED)
