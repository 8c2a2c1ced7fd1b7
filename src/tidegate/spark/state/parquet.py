"""Writes the state of a query as the Parquet of a canonical savepoint, beside the job's epochs.

Spark reads and writes partition by partition, so memory does not depend on the size of the state (hashmap holds one
partition at a time, as usual). While a query runs, this uses at most half of the cores; the epochs have the others.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType, TimestampType

from tidegate.core.errors import TidegateError
from tidegate.core.records import SavedQuery
from tidegate.disk.walking import files_below
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.refusals import only_native
from tidegate.savepoints.running_job import WriteTable
from tidegate.savepoints.state_tables import PARQUET, StateTable
from tidegate.savepoints.take import HELD
from tidegate.spark.connectors import storage_conf
from tidegate.spark.full_disk import full_disk
from tidegate.spark.state.tables import first_line, read_native
from tidegate.spark.task_files import TaskFiles
from tidegate.storages.schemes import Folder

_ROW_GROUP_BYTES = 16 << 20
"""Bytes that a task buffers before it writes, and that a restore buffers."""

_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
_LOOK_SECONDS = 0.2


@contextmanager
def tables_opened(
    session: SparkSession, job_folder: Folder, saved: SavedQuery, checkpoint: Path, copying: Copying
) -> Generator[WriteTable, None, None]:
    """A context with the function that writes the tables of a query, from Spark's own files. Their files are not
    synced.

    Raises SAVEPOINT_REFUSED if Spark cannot do that, SAVEPOINT_CUT_OFF if it was canceled, storage errors, OSError for
    a full disk.
    """
    files = TaskFiles.of(session, job_folder / HELD / secrets.token_hex(4), lambda _path: copying.go_on())
    conf = {**_CONF, **({} if files.place is None else storage_conf(session, files.place))}
    with files.read(checkpoint) as readable:
        yield _Tables(session, conf, files, saved, readable, copying).write


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of a query whose checkpoint tasks read under this URI."""

    session: SparkSession
    conf: Mapping[str, str]
    files: TaskFiles
    saved: SavedQuery
    checkpoint: str
    copying: Copying

    def write(self, table: StateTable, folder: Path) -> None:
        """Write a table into a new folder."""
        over, group = threading.Event(), f"tidegate-savepoint-{secrets.token_hex(4)}"
        watching = threading.Thread(target=_watch, args=(self.session, group, folder, self.copying, over), daemon=True)
        watching.start()
        try:
            with self.files.written(folder) as written:
                self._write(table, group, written)
        finally:
            over.set()
            watching.join()
        self.copying.go_on()
        _tidy(folder)

    def _write(self, table: StateTable, group: str, written: str) -> None:
        context = self.session.sparkContext
        try:
            rows = read_native(self.session, self.checkpoint, self.saved, table, self.conf)
            context.setJobGroup(group, f"the state of query {table.query}: {table}", interruptOnCancel=True)
            _write(rows, written, _tasks(self.session))
        except (PySparkException, Py4JError, TidegateError) as error:
            self.copying.go_on()
            raise _failed(error, table, self.checkpoint) from None


def _tasks(session: SparkSession) -> int:
    cores = session.sparkContext.defaultParallelism
    return max(1, cores // 2) if session.streams.active else cores


def _write(rows: DataFrame, where: str, tasks: int) -> None:
    table = rows.select(*(_column(rows, name) for name in rows.columns)).coalesce(tasks)
    writer = table.write.option("compression", "snappy").option("parquet.block.size", _ROW_GROUP_BYTES)
    writer.parquet(where)


def _watch(session: SparkSession, group: str, folder: Path, copying: Copying, over: threading.Event) -> None:
    """Report the progress by the written bytes; cancel the work if the savepoint was canceled."""
    begun = copying.copied_bytes
    while not over.wait(_LOOK_SECONDS):
        if copying.called_off.is_set():
            with suppress(Py4JError):  # the end of the job may have stopped Spark, and its output with it
                session.sparkContext.cancelJobGroup(group)
        else:
            copying.copied_bytes = min(begun + _size(folder), copying.total_bytes)


def _size(folder: Path) -> int:
    found = 0
    try:
        for below, names in files_below(folder):
            found += sum((below / name).stat().st_size for name in names)
    except FileNotFoundError:
        return found  # it is being created, or Spark has replaced it by a file
    return found


def _tidy(folder: Path) -> None:
    """Leave the rows unchanged, under names that are the same each time."""
    written = sorted(path for path in folder.iterdir() if path.suffix == PARQUET and not path.name.startswith("."))
    for path in set(folder.iterdir()) - set(written):
        if path.is_dir():  # an attempt has written on behind the end of its table
            shutil.rmtree(path)
        else:
            path.unlink()
    for number, path in enumerate(written):
        path.rename(folder / f"part-{number:05d}{PARQUET}")


# --- columns that Parquet has ------------------------------------------------------------------------------


def _column(rows: DataFrame, name: str) -> Column:
    kind = rows.schema[name].dataType
    if isinstance(kind, StructType) and not kind.fields:
        return F.struct(F.lit(None).cast("boolean").alias("nothing")).alias(name)
    return F.col(name).cast(_parquet_type(kind)).alias(name)


def _parquet_type(kind: DataType) -> str:
    """In Spark's notation. Each column has its place: duplicate names in a struct become different."""
    match kind:
        case NullType():
            return "boolean"
        case TimestampType():
            return "timestamp_ltz"  # `timestamp` may mean the other type in a session
        case ArrayType():
            return f"array<{_parquet_type(kind.elementType)}>"
        case MapType():
            return f"map<{_parquet_type(kind.keyType)}, {_parquet_type(kind.valueType)}>"
        case StructType():
            named = zip(_each_once(kind.names), kind.fields, strict=True)
            return f"struct<{', '.join(f'{_quoted(name)}: {_parquet_type(field.dataType)}' for name, field in named)}>"
        case _:
            return kind.simpleString()


def _each_once(names: Iterable[str]) -> Iterator[str]:
    taken: set[str] = set()
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        free = next(each for each in itertools.chain([name], numbered) if each.lower() not in taken)
        taken.add(free.lower())
        yield free


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _failed(error: Exception, table: StateTable, checkpoint: str) -> Exception:
    full = full_disk(error)
    if full is not None:
        return full
    found = f"{error.expected}: {error.found}" if isinstance(error, TidegateError) else first_line(error)
    expected = f"{table} as rows of a key and a value that Parquet can hold"
    return only_native(expected, found, f"query {table.query}, {checkpoint}")
