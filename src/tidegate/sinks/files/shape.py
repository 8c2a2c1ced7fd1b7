"""The layout of rows in files, and the rows that such files cannot hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from tidegate.sinks.files.formats import FormatOfFiles
from tidegate.sinks.files.hive_folders import by_folder, refused_as_folders
from tidegate.sinks.row_values import InvalidText, refused_texts, with_valid_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.storages.target_files import NameLimits


@dataclass(frozen=True, slots=True)
class FileShape:
    """The layout of rows in files: the columns for Hive's folders, and the limits of a file.

    `max_rows` is exact. `target_bytes` counts buffered Arrow bytes, so files reach about that size, and are smaller if
    the format compresses. `invalid_text`: None keeps texts unchanged, for files that only Spark reads.
    """

    format: FormatOfFiles
    partition_by: tuple[str, ...] = ()
    max_rows: int | None = None
    target_bytes: int | None = None
    invalid_text: InvalidText | None = None

    def with_files_of(self, bytes_at_most: int | None) -> FileShape:
        """The same layout, in files of at most about this size."""
        limits = [limit for limit in (self.target_bytes, bytes_at_most) if limit is not None]
        return replace(self, target_bytes=min(limits, default=None))

    def refused(self, batch: pa.RecordBatch, limits: NameLimits) -> list[RowRefused]:
        """Refuses the rows of `batch` that files with these limits cannot hold, or that a reader would not return
        unchanged.
        """
        found = [] if self.invalid_text is None else list(refused_texts(batch, self.invalid_text))
        batch = with_valid_texts(batch) if found else self.prepared(batch)
        if self.partition_by:
            found += refused_as_folders(batch, self.partition_by, limits)
        others = [name for name in batch.schema.names if name not in self.partition_by]
        return one_for_each_row([*found, *self.format.refuses(batch.select(others))])

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the sink writes them. The caller has removed refused rows."""
        return with_valid_texts(batch) if self.invalid_text is InvalidText.REPLACE else batch

    def pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows for each folder."""
        return by_folder(batch, self.partition_by) if self.partition_by else iter([("", batch)])
