"""The tables of state in a checkpoint. Custom state has one for each variable, which Spark's metadata names.

Spark opens the schemas of custom state by absolute paths into the checkpoint in which they were written. So it is read
from a copy with corrected paths; the files of state in it are links.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tidegate.checkpoints.spark_layout import STATE, entry_numbers, is_state
from tidegate.core.records import SavedQuery
from tidegate.disk.durable import storage_error
from tidegate.disk.linking import linked
from tidegate.disk.walking import files_below
from tidegate.savepoints.operator_metadata import moved_to, names_schemas, state_variables
from tidegate.savepoints.state_change import is_custom
from tidegate.savepoints.state_tables import StateTable, tables_of


def tables_in(checkpoint: Path, saved: SavedQuery) -> tuple[StateTable, ...]:
    """The tables of a query, in the order of its operators. Raises RECORD_CORRUPT, and storage errors."""
    return tuple(each for table in tables_of(saved) for each in _by_variable(checkpoint, table))


def link_readable(checkpoint: Path, into: Path) -> None:
    """Make a copy of a checkpoint in which Spark finds the schemas of custom state, independent of the first one."""
    for folder, names in files_below(checkpoint):
        for name in ((folder / each).relative_to(checkpoint).as_posix() for each in names):
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            if not names_schemas(name):
                if not linked(checkpoint / name, into / name):
                    (into / name).symlink_to(checkpoint / name)
            elif not name.endswith(".crc"):
                (into / name).write_bytes(moved_to((checkpoint / name).read_bytes(), into, str(checkpoint / name)))


def state_bytes(checkpoint: Path, table: StateTable) -> int:
    """The size of a table's files. A store that is not the only one has a folder of its own."""
    return sum(
        (folder / name).stat().st_size
        for folder, names in files_below(checkpoint / STATE / str(table.operator))
        for name in names
        if is_state((folder / name).relative_to(checkpoint).as_posix())
        and (table.store == "default" or folder.name == table.store)
    )


def _by_variable(checkpoint: Path, table: StateTable) -> list[StateTable]:
    if not is_custom(table.kind):
        return [table]
    folder = checkpoint / STATE / str(table.operator) / "_metadata" / "v2"
    try:
        newest = folder / str(max(entry_numbers(os.listdir(folder)), default=0))
        names = state_variables(newest.read_bytes(), str(newest))
    except OSError as error:
        raise storage_error(error, folder, "list the tables of state") from error
    return [replace(table, store=name) for name in names]
