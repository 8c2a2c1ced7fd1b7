"""What the table's manifests say of a data file: sizes, counts, bounds, partition. Gathered when the file is closed.

A committable holds texts only, so it is JSON, a line for each file; bounds are the format's own bytes, in hex digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

from tidegate.core.json_formats import parsed

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record


class FileFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of one file. Maps are by field id. `offsets`: where row groups begin, in bytes."""

    rows: int
    sizes: dict[int, int]
    values: dict[int, int]
    nulls: dict[int, int]
    nans: dict[int, int]
    lower: dict[int, str]
    upper: dict[int, str]
    offsets: list[int]
    partition: list[str | None] = []

    @classmethod
    def of(cls, footer: pq.FileMetaData, schema: Schema, metrics: Mapping[str, str]) -> FileFacts:
        """The facts of a Parquet file. `schema`: its columns. `metrics`: the table's properties for statistics."""
        try:
            found = _statistics(footer, schema, metrics)
        except (OverflowError, ValueError):  # a moment that Python does not have: then without bounds
            found = _statistics(footer, schema, _WITHOUT_BOUNDS)
        return cls(
            rows=found["record_count"],
            sizes=found["column_sizes"],
            values=found["value_counts"],
            nulls=found["null_value_counts"],
            nans=found["nan_value_counts"],
            lower={number: value.hex() for number, value in found["lower_bounds"].items()},
            upper={number: value.hex() for number, value in found["upper_bounds"].items()},
            offsets=found["split_offsets"],
        )

    def data_file(self, path: str, size_bytes: int, partition: Record, spec_id: int) -> DataFile:
        """The file as a manifest names it. `path`: its URI."""
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=partition,
            record_count=self.rows,
            file_size_in_bytes=size_bytes,
            column_sizes=self.sizes,
            value_counts=self.values,
            null_value_counts=self.nulls,
            nan_value_counts=self.nans,
            lower_bounds={number: bytes.fromhex(value) for number, value in self.lower.items()},
            upper_bounds={number: bytes.fromhex(value) for number, value in self.upper.items()},
            split_offsets=self.offsets,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
        )
        cast("Any", file).spec_id = spec_id
        return file


def _statistics(footer: pq.FileMetaData, schema: Schema, metrics: Mapping[str, str]) -> Any:
    plan = compute_statistics_plan(schema, dict(metrics))
    return data_file_statistics_from_parquet_metadata(
        footer, plan, parquet_path_to_id_mapping(schema)
    ).to_serialized_dict()


_WITHOUT_BOUNDS = {"write.metadata.metrics.default": "counts"}


def written(facts: Sequence[FileFacts]) -> str:
    return "\n".join(msgspec.json.encode(each).decode() for each in facts)


def read(text: str) -> list[FileFacts]:
    """The inverse of `written`."""
    return [parsed(line, FileFacts) for line in text.split("\n")]
