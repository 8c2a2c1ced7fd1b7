"""Delta tables for tests: sinks that stage and commit without Spark, and readers of the user."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tidegate.core.records import Answer, Committable, Outcome
from tidegate.sinks.delta.place import TablePlace
from tidegate.sinks.delta.sink import DeltaSink
from tidegate.storages.schemes import Folder


def rows_of(path: Path | str | Folder) -> list[dict[str, Any]]:
    """All rows of a table, in any order."""
    table = opened(path)
    return table.to_pyarrow_table().to_pylist()


def ids_of(path: Path | str | Folder) -> list[int]:
    return sorted(row["id"] for row in rows_of(path))


def opened(path: Path | str | Folder) -> DeltaTable:
    table = TablePlace(Folder.of(path)).table()
    assert table is not None
    return DeltaTable(table.table_uri, storage_options=table._storage_options)  # with the list of its files


def other_writer(path: Path, rows: Sequence[int]) -> None:
    """Another tool appends rows."""
    from deltalake import write_deltalake

    columns = {"id": pa.array(rows, pa.int64()), "word": pa.array([f"other {each}" for each in rows])}
    write_deltalake(str(path), pa.table(columns), mode="append")


class Paused:
    """A driver that commits in a thread of its own, and stands still right before the library writes its entry."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._answers: list[Answer] = []
        self._thread: threading.Thread | None = None
        original: Callable[..., None] = DeltaTable.create_write_transaction

        def stand_still(table: DeltaTable, *arguments: Any, **named: Any) -> None:
            if threading.current_thread() is self._thread and not self._reached.is_set():
                self._reached.set()
                assert self._go_on.wait(60)
            original(table, *arguments, **named)

        patch.setattr(DeltaTable, "create_write_transaction", stand_still)

    def begin(self, sink: DeltaSink, *committables: Committable) -> None:
        self._thread = threading.Thread(target=lambda: self._answers.extend(sink.commit(committables)))
        self._thread.start()
        assert self._reached.wait(60)

    def resume(self) -> Outcome:
        assert self._thread is not None
        self._go_on.set()
        self._thread.join(60)
        (found,) = {answer.outcome for answer in self._answers}
        return found
