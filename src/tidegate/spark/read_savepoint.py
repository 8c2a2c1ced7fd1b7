"""Reads the state in a savepoint. No job is needed, and none is changed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pyarrow.dataset import Dataset
from pyspark.sql import DataFrame, SparkSession

from tidegate.checkpoints.job_layout import QUERIES
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.savepoints.canonical import open_table
from tidegate.savepoints.folder import Savepoint, lacks, open_savepoint
from tidegate.savepoints.saved_tables import link_readable, tables_in
from tidegate.savepoints.state_change import is_custom
from tidegate.savepoints.state_tables import StateTable, chosen
from tidegate.settings.config import Settings
from tidegate.spark.plain_name import is_plain
from tidegate.spark.session import is_local, open_session
from tidegate.spark.state.tables import read_canonical, read_native


def read_savepoint(path: str | os.PathLike[str]) -> SavedState:
    """The state in a savepoint, by its folder. Reads no state yet.

    Raises SAVEPOINT_INCOMPLETE, SAVEPOINT_UNSAFE, RECORD_CORRUPT, RECORD_NEWER.
    """
    return SavedState(open_savepoint(Path(path).absolute()))


class SavedState:
    """The state of all queries in one savepoint. `tables` lists all tables."""

    def __init__(self, savepoint: Savepoint) -> None:
        self._savepoint = savepoint
        self.tables: tuple[StateTable, ...] = tuple(
            table
            for saved in savepoint.record.queries
            for table in tables_in(savepoint.folder / QUERIES / saved.done.query / "spark", saved)
        )

    def state(
        self,
        query: str,
        *,
        operator: int | str | None = None,
        store: str | None = None,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """The rows of state of a query: `key` and `value`, structs of Spark's own columns, and `partition_id`. A
        `store` of custom state is one of its variables; elements of a list or a map have columns of their own.

        `operator`, a number or a uid, and `store` are needed if the query has several. `spark`: the session that reads,
        by default the active one or a new one. The files must stay as long as the rows are used.

        Raises STATE_TABLE if the arguments match no table, or several; SAVEPOINT_INCOMPLETE if files are missing;
        STORAGE_UNSHARED for a session of a cluster, whose tasks do not see the files. Use `tidegate savepoint verify`
        to check their bytes.
        """
        folder = self._savepoint.folder
        saved, table = chosen(self._savepoint.record, self.tables, query, operator, store, str(folder))
        for error in lacks(self._savepoint):
            raise error
        session = spark or SparkSession.getActiveSession() or open_session("tidegate", Settings())
        if not is_local(session):
            raise _unseen(session, folder)
        if self._savepoint.record.format is SavepointFormat.CANONICAL:
            return read_canonical(session, folder / table.folder)
        checkpoint = folder / QUERIES / query / "spark"
        as_it_is = is_plain(checkpoint) and not is_custom(table.kind)
        return read_native(session, f"file:{checkpoint if as_it_is else _readable(checkpoint)}", saved, table, {})

    def state_arrow(self, query: str, *, operator: int | str | None = None, store: str | None = None) -> Dataset:
        """The same rows without Spark, from a canonical savepoint: `.to_table()` returns all of them, `.to_batches()`
        some at a time. Raises like `state`, and STATE_TABLE for a native savepoint, because only Spark can read its
        files.
        """
        folder, record = self._savepoint.folder, self._savepoint.record
        _, table = chosen(record, self.tables, query, operator, store, str(folder))
        if record.format is not SavepointFormat.CANONICAL:
            raise TidegateError(
                Code.STATE_TABLE,
                expected="a canonical savepoint, whose state is Parquet",
                found=f"a {record.format.value} one",
                where=str(folder),
                next_step="read it with Spark (.state), or take one with --type canonical",
            )
        for error in lacks(self._savepoint):
            raise error
        return open_table(folder, table)


def _readable(checkpoint: Path) -> Path:
    """A copy with the schemas of custom state where Spark looks for them. It stays as long as the process: rows may be
    read at any time.
    """
    folder = tempfile.TemporaryDirectory(prefix="tidegate-state-")
    _FOLDERS.append(folder)
    readable = Path(folder.name) / "spark"
    link_readable(checkpoint, readable)
    return readable


def _unseen(session: SparkSession, folder: Path) -> TidegateError:
    return TidegateError(
        Code.STORAGE_UNSHARED,
        expected="a session whose tasks run on this machine, which has the savepoint",
        found=f"spark.master = {session.sparkContext.master}",
        where=str(folder),
        next_step="give .state a session with a local master (spark=); .state_arrow reads a canonical savepoint without"
        " Spark",
    )


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
