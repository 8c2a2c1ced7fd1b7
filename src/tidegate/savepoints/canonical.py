"""The state of a canonical savepoint: Parquet, readable with or without Spark.

    queries/<uid>/state/<operator>/<store>/part-00000.parquet ...     columns key, value (structs) and partition_id

One folder for each store of each stateful operator. A key is in one row of its table. The columns in the structs are
Spark's own; where two have one name, the later ones are numbered (`sum`, `sum_2`). A struct without a column has one
that is null, and so has a column without a type: Parquet knows neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidegate.core.records import SavedQuery
from tidegate.savepoints.state_tables import PARQUET, SavedTables, StateTable, tables_of

_datasets, _parquet = cast("Any", ds), cast("Any", pq)


def open_table(savepoint: Path, table: StateTable) -> ds.Dataset:
    """Open a table of a canonical savepoint as an Arrow dataset, which can be read in batches or at once.

    Reads no row yet.
    """
    return _datasets.dataset([str(path) for path in _files(savepoint / table.folder)], format="parquet")


def spark_schema(folder: Path) -> str:
    """The schema of a table as Spark has written it into its files, as JSON; empty for a table without files, or if
    another program has written them. `folder`: that of the table.
    """
    files = _files(folder)
    found: dict[bytes, bytes] = (_parquet.read_schema(files[0]).metadata if files else None) or {}
    return found.get(b"org.apache.spark.sql.parquet.row.metadata", b"").decode()


def count_rows(tables: SavedTables, saved: SavedQuery) -> Mapping[str, int]:
    """The number of rows in each table of a query, from the footers of its files."""
    return {
        str(table): sum(_parquet.read_metadata(path).num_rows for path in _files(Path(tables.folder_of(table))))
        for table in tables_of(saved)
    }


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{PARQUET}"))
