"""The source `FileSource`: files that appear in a folder, each read once, in any of Spark's file formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.levels import Level
from tidegate.sources.files.described import DescribedFiles
from tidegate.sources.files.globs import FileSelection, expression, split
from tidegate.sources.files.options import KEEP, FileOptions, read_options
from tidegate.sources.files.place import FilesPlace
from tidegate.spark.connectors import reading_options
from tidegate.spark.session import is_local
from tidegate.spark.sources.file_systems import closed_files, is_of_files, qualified
from tidegate.spark.sources.opened_files import FilesBegun, OpenedFiles
from tidegate.spark.sources.refusals import (
    FILES_ELSEWHERE,
    left_to_spark,
    not_local,
    not_newest,
    refused_by_spark,
    unfit_option,
)
from tidegate.spark.sources.source import Ground, OpenedSource, PositionedSource
from tidegate.spark.sources.spark_source import SparkSource
from tidegate.storages.inputs import INPUT_SCHEMES, open_input_files
from tidegate.storages.schemes import Folder

_WITHOUT_SCHEMA = frozenset({"text", "binaryfile"})
"""Formats whose columns are the same for all files."""


class FileSource(DescribedFiles, PositionedSource):
    """Files that appear in a folder or match a pattern, in any of Spark's file formats.

    `schema`: of the rows; inferred at the first start if none is given. `pattern`: a pattern for file names.
    `recursive`: also read all subfolders, which are then no partitions. `max_files` and `max_bytes` limit an epoch.
    `settle`: a new file is read when two listings that are so far apart show the same size and time.

    `after_done`: what to do with a file that no retained checkpoint of any query needs: "keep", "delete" or
    "archive:DIR". `lost`: what to do if a file is missing or changed before its epoch is done: "refuse" or "skip".
    `changed`: what to do with a file that changed after it was read: "ignore", "refuse", or "reread" as a new file.
    `options` and all other keywords are options of Spark's format.

    Files are read in the order of their times, then of their names. Hidden files, and files whose names begin with `_`,
    are skipped. An at-most-once job reads only files that appear after its start.
    """

    kind: ClassVar[str] = "files"

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
        super().__init__(str(path), format)
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
        if not is_of_files(session, self.format):
            instead = f'SparkSource("{self.format}", ...)'
            raise left_to_spark("one of Spark's formats for files", f"format {self.format}", where, instead)
        if urlsplit(self.place(session, where).root).scheme == "file" and not is_local(session):
            raise not_local(str(session.sparkContext.master), "files", where, FILES_ELSEWHERE)
        schema = self.schema or self._kept
        if schema is None and self.format.lower() not in _WITHOUT_SCHEMA:
            schema = self._inferred(session, where, options)
        self.rows = self._stream(session, where, schema, options)
        return self.rows

    def opened(self, ground: Ground) -> OpenedSource:
        return OpenedFiles(self, ground)

    def options(self, where: str) -> FileOptions:
        """The options that the program gave. Raises SOURCE_OPTION for an invalid one."""
        return self._options(where)

    def place(self, session: SparkSession, where: str) -> FilesPlace:
        """The root folder and the selection of files."""
        options = self._options(where)
        try:
            root, patterns = split(self.path)
            names = expression(options.pattern) if options.pattern is not None else None
        except ValueError as error:
            raise _option("a pattern as Hadoop reads them", str(error), where) from None
        selection = FileSelection(patterns, recursive=options.recursive)
        selection = selection if names is None else FileSelection(patterns, names, options.recursive)
        named = _remote(root)
        root = qualified(session, root) if named is None else named.for_spark()
        remote = named or _remote(root)
        if remote is None:
            if urlsplit(root).scheme != "file":
                instead = f'SparkSource("{self.format}", path=...), or mount it'
                raise left_to_spark("a path on a disk of this machine, on HDFS or on S3", root, where, instead)
            return FilesPlace(root, selection, bool(patterns))
        _demand_movable(options, remote, where)
        return FilesPlace(root, selection, bool(patterns), closed_files(session, root))

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
        source.options = {**self._for_spark(session, options), "path": self._path_for_spark()}
        return source.read(session, where, {})

    def _path_for_spark(self) -> str:
        """The path with the scheme that Hadoop's file systems know."""
        root = split(self.path)[0]
        remote = _remote(root)
        return self.path if remote is None else f"{remote.for_spark()}{self.path[len(root) :]}"

    def _for_spark(self, session: SparkSession, options: FileOptions) -> dict[str, str]:
        remote = _remote(split(self.path)[0])
        reached = {} if remote is None else reading_options(session, remote)
        recursive = {"recursiveFileLookup": "true"} if options.recursive else {}
        pattern = {"pathGlobFilter": options.pattern} if options.pattern is not None else {}
        return {**reached, **options.spark, **recursive, **pattern}

    def _inferred(self, session: SparkSession, where: str, options: FileOptions) -> StructType:
        """The schema that Spark infers from the files that exist now."""
        reader = session.read.format(self.format).options(**self._for_spark(session, options))
        try:
            return reader.load(self._path_for_spark()).schema
        except PySparkException as error:
            instead = "give the source a schema, or start when the first file is there"
            raise refused_by_spark("schema=, or files to infer it from", error, where, instead) from None


_LOGS = frozenset({"delta", "iceberg", "hudi"})
"""Tables with a log of their own."""


def _demand_movable(options: FileOptions, folder: Folder, where: str) -> None:
    """Raises SOURCE_OPTION if done files are to go and the storage cannot rename them, or not into that archive."""
    if options.after_done != KEEP and not open_input_files(folder).can_move:
        raise _option(f'after_done="{KEEP}": S3 has no rename, so use a lifecycle rule', options.after_done, where)
    archive = None if options.archive is None else Folder.of(options.archive)
    if archive is not None and (archive.scheme, archive.authority) != (folder.scheme, folder.authority):
        raise _option(f"an archive on the storage of {folder}", str(archive), where)


def _remote(root: str) -> Folder | None:
    """The folder of a URI of HDFS or S3; None for any other path."""
    if urlsplit(root).scheme.lower() not in _REMOTE:
        return None
    return Folder.of(root)


_REMOTE = frozenset({"s3a", *(scheme.value for scheme in INPUT_SCHEMES)})


def _schema_in(position: str) -> StructType | None:
    try:
        text = parsed(position, FilesBegun).schema
    except Unreadable:
        return None
    return StructType.fromJson(parsed(text, dict[str, Any])) if text else None


def _option(expected: str, found: str, where: str) -> TidegateError:
    return unfit_option(expected, found, where, f"give the source {expected}")
