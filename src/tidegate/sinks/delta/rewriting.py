"""Rows of files of a table, written into new files of it by the driver.

The new files are staged under the epoch's folder, in the name of an attempt that no other process has. So two drivers
that do the same never meet, and a clean-up of the epoch finds what a dead one has left. What was published and never
came into the log is left to VACUUM.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Sequence

import pyarrow as pa

from tidegate.core.records import Attempt, Committable, SinkIdentity
from tidegate.sinks.delta.declared import DeclaredDeltaSink
from tidegate.sinks.delta.transaction import CountedFiles
from tidegate.sinks.refusals import row_conflict
from tidegate.sinks.rows import RowRefused

_FILE_BYTES = 128 * 1024 * 1024


def file_bytes_of(sink: DeclaredDeltaSink) -> int:
    """The size that files of the table should have: what the sink says, or 128 MiB."""
    return sink.shape.target_bytes or _FILE_BYTES


def written_again(
    sink: DeclaredDeltaSink,
    identity: SinkIdentity,
    epoch: int,
    partitions: Sequence[str],
    batches: Iterable[pa.RecordBatch],
    *,
    file_bytes: int | None,
) -> Committable | None:
    """These rows, durable in staged files; None if there are none.

    `partitions`: the table's partition columns. `file_bytes`: another file begins after about so many bytes.
    """
    attempt = Attempt(sink=identity, run=0, run_token=secrets.token_hex(8), epoch=epoch, task=0, task_attempt=0)
    shape = dataclasses.replace(
        sink.shape,
        partition_by=tuple(partitions),
        target_bytes=file_bytes,
        invalid_text=None,
    )
    files = CountedFiles(sink.files.stage, attempt, shape)
    try:
        for batch in batches:
            if batch.num_rows:
                files.write(batch)
        return files.pre_commit()
    except RowRefused as refused:
        files.abort()
        remedy = "Correct the row in the table, or the partitions of the table"
        raise row_conflict(attempt, str(sink.place.folder), refused.found, remedy) from None
    except BaseException:
        files.abort()
        raise
