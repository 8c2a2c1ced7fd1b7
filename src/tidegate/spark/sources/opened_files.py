"""A file source during one start of its job: its readers, and the removal of files that are done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, SOURCES, entry_numbers, offsets_entry
from tidegate.checkpoints.tempo import Tempo
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.spark_log import parse_offsets
from tidegate.sources.files.after_done import Cleaning, DoneReading
from tidegate.sources.files.listing import SeenFile
from tidegate.sources.files.lists import BEGIN
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.options import KEEP, FileOptions
from tidegate.sources.files.place import FilesPlace
from tidegate.sources.files.reader import FileReader, position_of
from tidegate.sources.pace import Pace
from tidegate.spark.sources.file_stream import stream_of
from tidegate.spark.sources.file_systems import encoding_of_names
from tidegate.spark.sources.source import Ground, Monitor, OpenedSource, SourceUse
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

_LOG = logging.getLogger("tidegate")


class FilesBegun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What *start* records of a file source: the schema of its files as JSON, because it is inferred only once."""

    schema: str = ""


class DeclaredFiles(Protocol):
    """The declaration of a file source in the program."""

    @property
    def rows(self) -> DataFrame | None:
        """The DataFrame that the program has built its queries on."""
        ...

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame: ...

    def options(self, where: str) -> FileOptions: ...

    def place(self, session: SparkSession, where: str) -> FilesPlace: ...


class OpenedFiles(OpenedSource):
    """A file source during one start of its job."""

    def __init__(self, source: DeclaredFiles, ground: Ground) -> None:
        self._source = source
        self._ground = ground
        self._left_out: dict[str, SeenFile] = {}
        self._readings: dict[str, list[FilesReading]] = {}
        self._keeps_no_checkpoints = False
        self._cleaning: Cleaning | None = None
        self._behind_the_epochs = ThreadPoolExecutor(1, "tidegate-files")

    def begin(self, where: str, level: Level, generation: int) -> str:
        self._keeps_no_checkpoints = level is Level.AT_MOST_ONCE
        if self._keeps_no_checkpoints:
            files = self._source.place(self._ground.session, where).files()
            self._left_out = {seen.name: seen for seen in files.list()}
        return msgspec.json.encode(FilesBegun(schema=self._rows(where).schema.json())).decode()

    def bound(self, session: SparkSession, use: SourceUse) -> DataFrame:
        where, tempo = use.where, use.tempo
        rows = self._rows(where)
        place = self._source.place(session, where)
        readings = self._readings[use.reader] = list[FilesReading]()

        def reader_at(folder: str) -> FileReader:
            number = int(folder.rstrip("/").rpartition("/")[2])
            readings.append(FilesReading(number, tempo.log, self._reader(place, where, tempo, number)))
            return readings[-1].reader

        options = self._source.options(where)
        if options.after_done != KEEP and self._cleaning is None:
            self._cleaning = Cleaning(place.files(), options.archive, where)
        return stream_of(session, rows, reader_at, is_folder=not place.is_pattern)

    def monitor(self, name: str) -> Monitor | None:
        return DoneEpochMonitor(lambda position: self._behind_the_epochs.submit(self._settle_down, name, position))

    def verify(self, reader: str) -> None:
        for each in self._readings.get(reader, ()):
            each.reader.verify()

    def close(self) -> None:
        """Wait until the thread that compacts the lists of files has ended; then remove or archive files that are done.

        After that, this source no longer writes into the job's folder, so another driver may use that folder.
        """
        self._behind_the_epochs.shutdown(wait=True, cancel_futures=True)
        self._let_go()

    def _settle_down(self, reader: str, position: str) -> None:
        """Compact the log of a reader, in a separate thread. `position`: where the newest done epoch has ended.

        A failure is logged as a warning and does no harm: names are in the lists until they are in the index.
        """
        try:
            self._let_go()
            for each in self._readings.get(reader, []):
                log, cleaning = each.reader.log, self._cleaning
                needed = (lambda _number: False) if cleaning is None else partial(cleaning.is_needed, log)
                log.settle_down(position_of(position), needed)
        except (TidegateError, OSError) as error:
            _LOG.warning("%s: the index of files is not put together (%s)", self._ground.where, error)

    def _let_go(self) -> None:
        """Remove or archive files that no retained checkpoint of any query needs.

        Does nothing until every query reads.
        """
        readings = [(reader, each) for reader, found in self._readings.items() for each in found]
        if self._cleaning is None or not self._ground.readers <= {reader for reader, _ in readings}:
            return
        oldest = {} if self._keeps_no_checkpoints else self._ground.oldest()
        behind = [
            DoneReading(
                each.reader.log, each.committed() if self._keeps_no_checkpoints else each.ends(oldest.get(reader))
            )
            for reader, each in readings
        ]
        self._cleaning.clean(behind)

    def _rows(self, where: str) -> DataFrame:
        if self._source.rows is None:
            return self._source.load(self._ground.session, where, Level.EXACTLY_ONCE)
        return self._source.rows

    def _reader(self, place: FilesPlace, where: str, tempo: Tempo, number: int) -> FileReader:
        log = FileLog(tempo.log / SOURCES / str(number), place.name_of, where, self._ground.epochs_kept)
        logged = cache(lambda: _logged(tempo.log, number))
        log.open(lambda: BEGIN if (newest := logged()[0]) is None else position_of(newest))
        return FileReader(
            options=self._source.options(where),
            files=place.files(),
            log=log,
            where=where,
            committed=logged()[1],
            left_out=self._left_out,
            names_in=encoding_of_names(self._ground.session),
            pace=Pace.first(tempo.aim_seconds, tempo.timeout_seconds),
            epoch_seconds=tempo.newest_epoch_seconds,
        )


@dataclass(frozen=True, slots=True)
class FilesReading:
    """The reading of a source at one place in Spark's plan of a query. `log`: the folder of Spark's log for it."""

    place: int
    log: Folder
    reader: FileReader

    def committed(self) -> int:
        """The number of the newest list whose epoch Spark has committed. Spark reads no list up to it again."""
        storage = open_storage(self.log)
        numbers = entry_numbers(storage.list(COMMITS))
        position = _position(storage, numbers[-1], self.place) if numbers else None
        return -1 if position is None else position_of(position).logOffset

    def ends(self, positions: Sequence[str | None] | None) -> int:
        """The number of the newest list that an epoch has read; -1 if it has read none.

        `positions`: the positions of the query's sources at the end of that epoch.
        """
        position = None if positions is None or self.place >= len(positions) else positions[self.place]
        return -1 if position is None else position_of(position).logOffset


class DoneEpochMonitor(Monitor):
    """Calls `settle_down` after each done epoch, to compact the lists of files and to remove files that are done."""

    def __init__(self, settle_down: Callable[[str], object]) -> None:
        self._settle_down = settle_down

    def tell(self, positions: Sequence[str]) -> None:
        with suppress(RuntimeError):  # the job has ended
            for position in positions:
                self._settle_down(position)

    def behind(self) -> int | None:
        return None  # a file does not say how many rows it has

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


def _logged(checkpoint: Folder, place: int) -> tuple[str | None, str | None]:
    """The newest position of a source in Spark's log, and its newest committed position.

    Each of the two is None if it does not exist.
    """
    storage = open_storage(checkpoint)
    logged = entry_numbers(storage.list(OFFSETS))
    committed = entry_numbers(storage.list(COMMITS))
    positions = {number: _position(storage, number, place) for number in {*logged[-1:], *committed[-1:]}}
    newest = positions[logged[-1]] if logged else None
    return newest, positions[committed[-1]] if committed and committed[-1:] == logged[-1:] else None


def _position(storage: Storage, epoch: int, place: int) -> str | None:
    entry = parse_offsets(storage.read(offsets_entry(epoch)))
    return None if entry is None or place >= len(entry.positions) else entry.positions[place]
