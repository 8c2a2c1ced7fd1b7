"""Iceberg tables for tests: a catalog in one SQLite file, and readers and other writers of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, LongType, NestedField, StringType

from tests.support.staged import plan
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.storages.client_settings import client_settings
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import SCHEMA

NAME = "lake.numbers"
ID, WORD = ("id", LongType(), False), ("word", StringType(), False)


def properties_in(folder: Path, warehouse: Folder | Path | None = None) -> dict[str, str]:
    """The properties of a catalog whose file stands in `folder`, and its tables in `warehouse`."""
    place = f"file://{folder}/warehouse" if warehouse is None or isinstance(warehouse, Path) else str(warehouse)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": place}


def sink_in(folder: Path, **options: Any) -> IcebergSink:
    """A sink named as the contract's, with its catalog in `folder`."""
    given: dict[str, Any] = {"catalog": "tests", "catalog_properties": properties_in(folder), **options}
    return IcebergSink("numbers", NAME, **given)


def catalog_in(folder: Path, warehouse: Folder | None = None) -> Catalog:
    """The same catalog for the user, without what the sink adds."""
    found = properties_in(folder, warehouse)
    return load_catalog("tests", **found, **({} if warehouse is None else _s3(warehouse)))


def _s3(warehouse: Folder) -> Mapping[str, str]:
    held = client_settings(warehouse)
    names = {
        "AWS_REGION": "s3.region",
        "AWS_ENDPOINT_URL": "s3.endpoint",
        "AWS_ACCESS_KEY_ID": "s3.access-key-id",
        "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    }
    return {name: held[key] for key, name in names.items() if key in held}


def opened(folder: Path, warehouse: Folder | None = None, name: str = NAME) -> Table:
    """The table as a user reads it."""
    return catalog_in(folder, warehouse).load_table(name)


def rows_of(table: Table) -> list[dict[str, Any]]:
    """All rows of a table, in any order."""
    return table.scan().to_arrow().to_pylist()


def ids_of(folder: Path) -> list[int]:
    return sorted(row["id"] for row in rows_of(opened(folder)))


def ids_of_task(epoch: int, task: int) -> list[int]:
    """The ids that `staged` writes by default."""
    first = (epoch * 10 + task) * 1000
    return [first, first + 1]


def table_with(folder: Path, *fields: tuple[str, IcebergType, bool], **options: Any) -> Table:
    """A table that somebody else has made. `fields`: name, type, whether it is required."""
    catalog = catalog_in(folder)
    catalog.create_namespace_if_not_exists("lake")
    columns = [NestedField(number, name, kind, required=needed) for number, (name, kind, needed) in enumerate(fields)]
    return catalog.create_table(NAME, Schema(*columns), **options)


def found(sink: IcebergSink, schema: pa.Schema = SCHEMA, **options: Any) -> list[tuple[str, str]]:
    """The violations of a start: code, and what was found."""
    return [(each.code, each.found) for each in sink.check(plan(schema, **options))]


def other_rows(rows: Sequence[int]) -> pa.Table:
    columns = {"id": pa.array(rows, pa.int64()), "word": pa.array([f"other {each}" for each in rows])}
    return pa.table(columns)


def other_writer(folder: Path, rows: Sequence[int]) -> None:
    """Another tool appends rows, with its own tries."""
    opened(folder).append(other_rows(rows))
