"""Iceberg tables on the disk, with a catalog in one SQLite file. They have no server; another writer commits to them
and expires their snapshots meanwhile.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tests.campaign.places import QUERIES
from tests.campaign.stores.store import ADDRESS, COLUMNS, Store
from tests.support.variables import variables
from tidegate.sinks.base import TwoPhaseSink

_CATALOG, _NAMESPACE = "campaign", "lake"
_SCHEME = "file://"


@dataclass(frozen=True, slots=True)
class OtherWriter:
    """Changes the tables, and leaves only their newest snapshots."""

    title: str = "tables changed by another writer"

    def strike(self) -> None:
        from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

        for query in QUERIES:
            with suppress(CommitFailedException, NoSuchTableError):  # the job was faster, or has not created it
                table = _table(query)
                with table.transaction() as changes:
                    changes.set_properties({"campaign.struck": secrets.token_hex(4)})
                table.maintenance.expire_snapshots().older_than(datetime.now(timezone.utc)).commit()


class Iceberg(Store):
    """Rows are only appended."""

    @contextmanager
    def serve(self, folder: Path) -> Generator[OtherWriter]:
        lake = folder / "iceberg"
        lake.mkdir(parents=True)
        properties = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"{_SCHEME}{lake}/warehouse"}
        with variables({ADDRESS: json.dumps(properties)}):
            yield OtherWriter()

    def sinks(self, query: str) -> list[TwoPhaseSink]:
        from tidegate import IcebergSink

        properties = json.loads(os.environ[ADDRESS])
        name = f"{_NAMESPACE}.{query}"
        return [IcebergSink(f"{query}-store", name, catalog=_CATALOG, catalog_properties=properties)]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        found = _table(table).scan(selected_fields=tuple(COLUMNS[table])).to_arrow()
        return list(zip(*(found[name].to_pylist() for name in COLUMNS[table]), strict=True))

    def left_over(self) -> dict[str, list[str]]:
        places = [Path(_table(query).location().removeprefix(_SCHEME)) for query in QUERIES]
        staged = [str(file) for place in places for file in (place / ".tidegate").rglob("*") if file.is_file()]
        return {"staged files": staged, "data files without a snapshot": [*map(str, _unnamed())]}


def _table(query: str) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog(_CATALOG, **json.loads(os.environ[ADDRESS])).load_table(f"{_NAMESPACE}.{query}")


def _unnamed() -> Generator[Path]:
    """The data files that the newest snapshot of no table names."""
    for table in map(_table, QUERIES):
        named = {path.removeprefix(_SCHEME) for path in table.inspect.data_files()["file_path"].to_pylist()}
        data = Path(table.location().removeprefix(_SCHEME)) / "data"
        yield from (file for file in data.rglob("*.parquet") if str(file) not in named)
