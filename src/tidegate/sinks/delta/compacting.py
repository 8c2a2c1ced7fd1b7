"""Small files of a table become one larger file, behind done epochs: the option `compact_at=`.

The rows stay, so the commit says of each file that it changes no data, and has no evidence. It is made like the commit
of an epoch: the new file and its name are synced, and only the version after the one that was read is written. If
another writer is faster, nothing has happened, and the next done epoch tries again. The old files stay on the storage
until VACUUM, for readers of older versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from tidegate.core.records import SinkIdentity
from tidegate.sinks.delta.actions import added, removed
from tidegate.sinks.delta.declared import DeclaredDeltaSink
from tidegate.sinks.delta.features import rules_against_rewriting
from tidegate.sinks.delta.live_files import LiveFile, live_files, schema_of
from tidegate.sinks.delta.log_syncs import sync_log
from tidegate.sinks.delta.place import NO_HOOKS, alone
from tidegate.sinks.delta.reading import FileRows
from tidegate.sinks.delta.rewriting import file_bytes_of, written_again

AT_ONCE_BYTES = 1024 * 1024 * 1024
"""Behind one epoch, files of about so many bytes are read: the next epoch waits for it."""


def compact(sink: DeclaredDeltaSink, identity: SinkIdentity, epoch: int, compact_at: int) -> None:
    """Make one file of the small ones, in each partition that has `compact_at` of them or more.

    `epoch`: the done one, under whose name new files are staged. Raises `TABLE_ERRORS`.
    """
    table = sink.place.table()
    if table is None or list(rules_against_rewriting(table, "")):
        return
    chosen = _chosen(live_files(table), file_bytes_of(sink), compact_at)
    if not chosen:
        return
    schema, files = schema_of(table), FileRows(sink.place)
    partitions, where = table.metadata().partition_columns, str(sink.place.folder)
    made = written_again(sink, identity, epoch, partitions, _rows(files, chosen, schema), file_bytes=None)
    new = [] if made is None else [made]
    sink.files.publish(new)
    try:
        table.create_write_transaction(
            [*removed(chosen, where, data_change=False), *added(new, data_change=False)],
            "append",
            table.schema(),
            partitions,
            commit_properties=alone(),
            post_commithook_properties=NO_HOOKS,
        )
    except CommitFailedError:  # another writer was faster
        return
    finally:
        sink.files.clean(identity, epoch)
    folder = sink.place.log_folder()
    if folder is not None:
        sync_log(folder, table.version() + 1)


def _chosen(files: Sequence[LiveFile], file_bytes: int, compact_at: int) -> list[LiveFile]:
    """The small files that become one in each partition. A file is small below half of `file_bytes`."""
    by_partition: dict[tuple[object, ...], list[LiveFile]] = {}
    for file in files:
        if file.size_bytes < file_bytes / 2 and file.is_removable:
            by_partition.setdefault(_values_of(file), []).append(file)
    chosen: list[LiveFile] = []
    for small in by_partition.values():
        left = AT_ONCE_BYTES - sum(each.size_bytes for each in chosen)
        if len(small) >= compact_at and left > 0:
            chosen += _up_to(small, min(file_bytes, left))
    return chosen


def _up_to(files: Sequence[LiveFile], size_bytes: int) -> list[LiveFile]:
    """The first files, until they have this size together; at least two."""
    taken: list[LiveFile] = []
    for file in files:
        taken.append(file)
        size_bytes -= file.size_bytes
        if size_bytes <= 0 and len(taken) > 1:
            break
    return taken


def _values_of(file: LiveFile) -> tuple[object, ...]:
    values: list[Any] = list(file.partition.values())
    return tuple(each.cast(pa.string()).as_py() for each in values)


def _rows(files: FileRows, chosen: Sequence[LiveFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for file in chosen:
        yield from files.of(file.path, schema, file.partition)
