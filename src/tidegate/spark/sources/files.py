"""The file source: files that appear in a folder, each read once, by any of Spark's formats for files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, SOURCES, entry_numbers, offsets_entry
from tidegate.checkpoints.tempo import Tempo
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.spark_log import parse_offsets
from tidegate.sources.files.after_done import Behind, Cleaning
from tidegate.sources.files.globs import Selection, expression, split
from tidegate.sources.files.listing import Files, LocalFiles, Seen
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.options import KEEP, FileOptions, read_options
from tidegate.sources.files.reader import FileReader, position_of
from tidegate.sources.pace import Pace
from tidegate.spark.sources.file_stream import stream_of
from tidegate.spark.sources.source import (
    Ground,
    Monitor,
    OpenedSource,
    PositionedSource,
    SparkSource,
    not_newest,
)
from tidegate.storages.opening import open_storage
from tidegate.storages.storage import Storage

_LOG = logging.getLogger("tidegate")
_WITHOUT_SCHEMA = frozenset({"text", "binaryfile"})
"""Formats whose columns are the same for all files."""


class Begun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What *start* says of a file source: the schema of its files, as JSON, which is inferred once."""

    schema: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the files of a source are: the folder, with its scheme, and what is selected below it."""

    root: str
    selection: Selection
    is_pattern: bool

    def files(self) -> Files:
        return LocalFiles(Path(unquote(urlsplit(self.root).path)), self.selection)

    def name_of(self, uri: str) -> str:
        """The path below the root of a file that Spark's own source has noted by its URI."""
        path, root = unquote(urlsplit(uri).path), unquote(urlsplit(self.root).path).rstrip("/") + "/"
        if not path.startswith(root):
            raise TidegateError(
                Code.SOURCES_CHANGED,
                expected=f"files below {root}, as they were when Spark's own file source read them",
                found=path,
                where="the checkpoint",
                next_step="put the folder back where it was for one start: from then on it may be moved",
            )
        return path[len(root) :]


class FileSource(PositionedSource):
    """Files that appear in a folder, or that a pattern fits; any of Spark's formats for files.

    `schema`: inferred at the first start where none is given. `pattern`: of file names. `recursive`: also files in
    folders below, which are no partitions then. `max_files` and `max_bytes` limit an epoch. `settle`: a new file is
    read when two listings so far apart have shown the same size and time. `after_done`: what becomes of a file behind
    the oldest retained checkpoint of every query that reads it: "keep", "delete" or "archive:DIR". `lost`: whether a
    file that went, or changed, before its epoch was done "refuse"s the job, or is one to "skip". `changed`: what is
    done with a file that was read and then changed: "ignore", "refuse", or "reread" as a new one. `options`, and all
    other keywords, are those of Spark's format.

    Files are read in the order of their times, then of their names. Hidden names and those that begin with `_` are
    left out. An at-most-once job reads the files that were not there when it started.
    """

    def __init__(
        self,
        path: str,
        *,
        format: str,
        schema: str | StructType | None = None,
        pattern: str | None = None,
        recursive: bool | None = None,
        max_files: int | None = None,
        max_bytes: int | None = None,
        settle: str | float | None = None,
        after_done: str | None = None,
        lost: Literal["refuse", "skip"] | None = None,
        changed: Literal["ignore", "refuse", "reread"] | None = None,
        options: Mapping[str, str | int | bool] | None = None,
        **spark_options: str | int | bool,
    ) -> None:
        self.path = str(path)
        self.format = format
        self.schema = schema
        self.rows: DataFrame | None = None
        """What the program has built its queries on."""
        self._kept: StructType | None = None
        self._own: dict[str, object] = {
            "pattern": pattern,
            "recursive": recursive,
            "max_files": max_files,
            "max_bytes": max_bytes,
            "settle": settle,
            "after_done": after_done,
            "lost": lost,
            "changed": changed,
        }
        self._spark_options: dict[str, object] = {**(options or {}), **spark_options}
        self._given_twice = sorted(set(options or {}) & set(spark_options))

    def recall(self, position: str) -> None:
        self._kept = _schema_in(position)

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        options = self._options(where)
        if level is Level.AT_MOST_ONCE and self.format.lower() in _LOGS:
            raise not_newest(self.format, where)
        if not _is_of_files(session, self.format):
            raise TidegateError(
                Code.SOURCE_REFUSED,
                expected="one of Spark's formats for files",
                found=f"format {self.format}",
                where=where,
                next_step=f'read it with SparkSource("{self.format}", ...)',
            )
        self.place(session, where)
        schema = self.schema or self._kept
        if schema is None and self.format.lower() not in _WITHOUT_SCHEMA:
            schema = self._inferred(session, where, options)
        self.rows = self._stream(session, where, schema, options)
        return self.rows

    def opened(self, ground: Ground) -> OpenedSource:
        return OpenedFiles(self, ground)

    def options(self, where: str) -> FileOptions:
        """What was given. Raises SOURCE_OPTION."""
        return self._options(where)

    def place(self, session: SparkSession, where: str) -> Place:
        """Where the files are."""
        options = self._options(where)
        try:
            root, patterns = split(self.path)
            names = expression(options.pattern) if options.pattern is not None else None
        except ValueError as error:
            raise _option("a pattern as Hadoop reads them", str(error), where) from None
        selection = Selection(patterns, recursive=options.recursive)
        selection = selection if names is None else Selection(patterns, names, options.recursive)
        root = _qualified(session, root)
        if urlsplit(root).scheme != "file":
            raise TidegateError(
                Code.SOURCE_REFUSED,
                expected="a path on a disk of this machine",
                found=root,
                where=where,
                next_step=f'read it with SparkSource("{self.format}", path=...), or mount it',
            )
        return Place(root, selection, bool(patterns))

    def _options(self, where: str) -> FileOptions:
        is_pattern = bool(set("*?[{\\") & set(self.path))
        options, wrong = read_options(self._own, self._spark_options, is_pattern=is_pattern)
        wrong.extend((f"{name}= once", "in options= and by itself") for name in self._given_twice)
        for expected, found in wrong:
            raise _option(expected, found, where)
        return options

    def _stream(
        self, session: SparkSession, where: str, schema: str | StructType | None, options: FileOptions
    ) -> DataFrame:
        source = SparkSource(self.format, schema=schema)
        source.options = {**self._for_spark(options), "path": self.path}
        return source.read(session, where, {})

    def _for_spark(self, options: FileOptions) -> dict[str, str]:
        recursive = {"recursiveFileLookup": "true"} if options.recursive else {}
        pattern = {"pathGlobFilter": options.pattern} if options.pattern is not None else {}
        return {**options.spark, **recursive, **pattern}

    def _inferred(self, session: SparkSession, where: str, options: FileOptions) -> StructType:
        """The schema of what is there now."""
        reader = session.read.format(self.format).options(**self._for_spark(options))
        try:
            return reader.load(self.path).schema
        except PySparkException as error:
            raise TidegateError(
                Code.SOURCE_REFUSED,
                expected="schema=, or files to infer it from",
                found=str(error).split("\n")[0],
                where=where,
                next_step="give the source a schema, or start when the first file is there",
            ) from None


def _qualified(session: SparkSession, path: str) -> str:
    """A path with its scheme, as Hadoop completes it; as it is where Hadoop does not know the scheme."""
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    context: Any = session.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    try:
        found = jvm.org.apache.hadoop.fs.Path(path)
        return str(found.getFileSystem(context.hadoopConfiguration()).makeQualified(found).toUri().toString())
    except (PySparkException, Py4JError):
        return path


def _encoding_of_names(session: SparkSession) -> str:
    """By its locale, Java opens a file whose name is not ASCII, or finds nothing."""
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    return str(jvm.java.lang.System.getProperty("sun.jnu.encoding"))


def _is_of_files(session: SparkSession, format: str) -> bool:
    """Whether Spark reads files by this format. One that it does not know is for Spark to refuse."""
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    of_files, loader = "org.apache.spark.sql.execution.datasources", classic.getClass().getClassLoader()
    try:
        found = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
            format, classic.sessionState().conf()
        )
    except (PySparkException, Py4JError):
        return True
    kinds = (f"{of_files}.FileFormat", f"{of_files}.v2.FileDataSourceV2")
    return any(loader.loadClass(kind).isAssignableFrom(found) for kind in kinds)


_LOGS = frozenset({"delta", "iceberg", "hudi"})
"""Tables with a log of their own."""


class OpenedFiles(OpenedSource):
    """A file source during one start of its job."""

    def __init__(self, source: FileSource, ground: Ground) -> None:
        self._source = source
        self._ground = ground
        self._left_out: dict[str, Seen] = {}
        self._readings: dict[str, list[Reading]] = {}
        self._keeps_no_checkpoints = False
        self._cleaning: Cleaning | None = None
        self._behind_the_epochs = ThreadPoolExecutor(1, "tidegate-files")

    def begin(self, where: str, level: Level) -> str:
        self._keeps_no_checkpoints = level is Level.AT_MOST_ONCE
        if self._keeps_no_checkpoints:
            files = self._source.place(self._ground.session, where).files()
            self._left_out = {seen.name: seen for seen in files.list()}
        return msgspec.json.encode(Begun(schema=self._rows(where).schema.json())).decode()

    def bound(self, session: SparkSession, where: str, position: str, tempo: Tempo, reader: str) -> DataFrame:
        rows = self._rows(where)
        place = self._source.place(session, where)
        readings = self._readings[reader] = list[Reading]()

        def reader_at(folder: str) -> FileReader:
            number = int(folder.rstrip("/").rpartition("/")[2])
            readings.append(Reading(number, tempo.log, self._reader(place, where, tempo, number)))
            return readings[-1].reader

        options = self._source.options(where)
        if options.after_done != KEEP and self._cleaning is None:
            self._cleaning = Cleaning(place.files(), options.archive, where)
        return stream_of(session, rows, reader_at, is_folder=not place.is_pattern)

    def monitor(self, name: str) -> Monitor | None:
        return Finished(lambda: self._behind_the_epochs.submit(self._settle_down, name))

    def verify(self, reader: str) -> None:
        for each in self._readings.get(reader, ()):
            each.reader.verify()

    def close(self) -> None:
        """What is under way is waited for: behind this, another driver may have the folder."""
        self._behind_the_epochs.shutdown(wait=True, cancel_futures=True)
        self._let_go()

    def _settle_down(self, reader: str) -> None:
        """In a thread of its own. What fails is a warning: every name is in the lists until it is in the index."""
        try:
            self._let_go()
            for each in self._readings.get(reader, ()):
                log, cleaning = each.reader.log, self._cleaning
                needed = (lambda _number: False) if cleaning is None else partial(cleaning.is_needed, log)
                log.settle_down(each.committed(), needed)
        except (TidegateError, OSError) as error:
            _LOG.warning("%s: the index of files is not put together (%s)", self._ground.where, error)

    def _let_go(self) -> None:
        """Let files go that are behind the oldest retained checkpoint of every query. Not before each of them reads."""
        readings = [(reader, each) for reader, found in self._readings.items() for each in found]
        if self._cleaning is None or not self._ground.readers <= {reader for reader, _ in readings}:
            return
        oldest = {} if self._keeps_no_checkpoints else self._ground.oldest()
        behind = [
            Behind(each.reader.log, each.committed() if self._keeps_no_checkpoints else each.ends(oldest.get(reader)))
            for reader, each in readings
        ]
        self._cleaning.clean(behind)

    def _rows(self, where: str) -> DataFrame:
        if self._source.rows is None:
            return self._source.load(self._ground.session, where, Level.EXACTLY_ONCE)
        return self._source.rows

    def _reader(self, place: Place, where: str, tempo: Tempo, number: int) -> FileReader:
        log = FileLog(tempo.log / SOURCES / str(number), place.name_of, where, self._ground.epochs_kept)
        newest, committed = _logged(tempo.log, number)
        log.open(-1 if newest is None else position_of(newest).logOffset)
        return FileReader(
            options=self._source.options(where),
            files=place.files(),
            log=log,
            where=where,
            committed=committed,
            left_out=self._left_out,
            names_in=_encoding_of_names(self._ground.session),
            pace=Pace.first(tempo.interval_seconds, tempo.timeout_seconds),
            epoch_seconds=tempo.newest_epoch_seconds,
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """A place of a source in Spark's plan of a query, and what reads there. `log`: the folder of Spark's log."""

    place: int
    log: Path
    reader: FileReader

    def committed(self) -> int:
        """The newest list that an epoch has which Spark has committed: nothing asks for it, or an older one, again."""
        storage = open_storage(self.log)
        numbers = entry_numbers(storage.list(COMMITS))
        position = _position(storage, numbers[-1], self.place) if numbers else None
        return -1 if position is None else position_of(position).logOffset

    def ends(self, positions: Sequence[str | None] | None) -> int:
        """The newest list up to the positions of an epoch."""
        position = None if positions is None or self.place >= len(positions) else positions[self.place]
        return -1 if position is None else position_of(position).logOffset


class Finished(Monitor):
    """Hears of each epoch that is done, and has what is behind it put in order."""

    def __init__(self, settle_down: Callable[[], object]) -> None:
        self._settle_down = settle_down

    def tell(self, position: str) -> None:
        with suppress(RuntimeError):  # the job has ended
            self._settle_down()

    def behind(self) -> int | None:
        return None  # a file does not say how many rows it has

    def close(self) -> None:
        """Nothing is held."""


def _logged(checkpoint: Path, place: int) -> tuple[str | None, str | None]:
    """The newest position of a source in Spark's log, and the newest that is committed; None where there is none."""
    storage = open_storage(checkpoint)
    logged = entry_numbers(storage.list(OFFSETS))
    committed = entry_numbers(storage.list(COMMITS))
    positions = {number: _position(storage, number, place) for number in {*logged[-1:], *committed[-1:]}}
    newest = positions[logged[-1]] if logged else None
    return newest, positions[committed[-1]] if committed and committed[-1:] == logged[-1:] else None


def _position(storage: Storage, epoch: int, place: int) -> str | None:
    entry = parse_offsets(storage.read(offsets_entry(epoch)))
    return None if entry is None or place >= len(entry.positions) else entry.positions[place]


def _schema_in(position: str) -> StructType | None:
    try:
        text = msgspec.json.decode(position, type=Begun).schema
    except msgspec.MsgspecError:
        return None
    return StructType.fromJson(msgspec.json.decode(text)) if text else None


def _option(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.SOURCE_OPTION, expected=expected, found=found, where=where, next_step=f"give the source {expected}"
    )
