"""Delta tables on the disk. They have no server; another writer merges their small files while the job commits."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.campaign.places import QUERIES
from tests.campaign.stores.store import ADDRESS, COLUMNS, Store
from tests.support.variables import variables
from tidegate.sinks.base import TwoPhaseSink

_LOG = "_delta_log"


@dataclass(frozen=True, slots=True)
class OtherWriter:
    """Replaces the small files of the tables by large ones, in a commit of its own."""

    folder: Path
    title: str = "files merged by another writer"

    def strike(self) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError, TableNotFoundError

        for query in QUERIES:
            with suppress(CommitFailedError, TableNotFoundError):  # the job was faster, or has not created it
                DeltaTable(str(self.folder / query)).optimize.compact()


class Delta(Store):
    """Rows are only appended."""

    @contextmanager
    def serve(self, folder: Path) -> Generator[OtherWriter]:
        tables = folder / "delta"
        with variables({ADDRESS: str(tables)}):
            yield OtherWriter(tables)

    def sinks(self, query: str) -> list[TwoPhaseSink]:
        from tidegate import DeltaSink

        return [DeltaSink(f"{query}-store", _table(query))]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        from deltalake import DeltaTable

        found = DeltaTable(str(_table(table))).to_pyarrow_table(columns=list(COLUMNS[table]))
        return list(zip(*(found[name].to_pylist() for name in COLUMNS[table]), strict=True))

    def left_over(self) -> dict[str, list[str]]:
        staged = [str(file) for query in QUERIES for file in (_table(query) / ".tidegate").rglob("*") if file.is_file()]
        return {"staged files": staged, "data files without a commit": [*map(str, _unnamed())]}


def _table(name: str) -> Path:
    return Path(os.environ[ADDRESS]) / name


def _unnamed() -> Generator[Path]:
    """The data files that no entry of the log adds."""
    for table in map(_table, QUERIES):
        lines = [line for entry in (table / _LOG).glob("*.json") for line in entry.read_bytes().splitlines()]
        added = {action["add"]["path"] for line in lines if "add" in (action := msgspec.json.decode(line))}
        yield from (file for file in table.glob("*.parquet") if file.name not in added)
