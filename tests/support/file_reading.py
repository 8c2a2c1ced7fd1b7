"""What Spark asks a file source, under the contract of sources: the rows of the files that the reader names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from tidegate.sources.base import Begins
from tidegate.sources.files.listing import Files, SeenFile
from tidegate.sources.files.lists import BEGIN, ListPosition
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.options import FileOptions
from tidegate.sources.files.reader import FileReader, Wait
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import Row
from tidegate.testing.source_contract import ReadingPlace, SourceReading


class FilesReading(SourceReading):
    """`files`: opens the files of the source. `read`: all of a file, by the path that the reader names."""

    def __init__(self, files: Callable[[], Files], read: Callable[[str], str], log: Path) -> None:
        self._files = files
        self._read = read
        self._log = log
        self.reader = self._opened(log, {})

    def begin(self, where: Begins) -> ReadingPlace:
        if where is Begins.NEWEST:
            there = {seen.name: seen for seen in self._files().list()}
            self.reader = self._opened(self._log.with_name("newest"), there)
        return {"logOffset": -1}

    def end(self, start: ReadingPlace) -> ReadingPlace:
        found = self.reader.latest(json.dumps(start))
        return start if found is None or isinstance(found, Wait) else json.loads(found)

    def rows(self, start: ReadingPlace, end: ReadingPlace) -> list[Row]:
        if start == end:
            return []
        paths = self.reader.batch(json.dumps(start), json.dumps(end))
        rows = [json.loads(line) for path in paths for line in self._read(path).splitlines()]
        self.reader.verify()
        return rows

    def stop(self) -> None:
        self.reader.catch_up()

    def _opened(self, folder: Path, left_out: dict[str, SeenFile]) -> FileReader:
        log = FileLog(Folder.of(folder), lambda uri: uri, "source files", 100)
        log.open(lambda: newest_list(folder))
        options = FileOptions(settle_seconds=0.0)
        return FileReader(options, self._files(), log, "source files", left_out=left_out)


def newest_list(folder: Path) -> ListPosition:
    """The position in which the list with the largest number in a log ends: of a log that has no two of one number."""
    lists = [file.name.split("-") for file in folder.glob("[0-9]*-*")]
    found = [ListPosition(logOffset=int(number), digest=digest) for number, digest in lists]
    return max(found, default=BEGIN, key=lambda position: position.logOffset)


def lists_back_from(folder: Path, position: ListPosition) -> Iterator[tuple[int, Path]]:
    """Number and file of each list to which a position leads, the newest first, as far as they still exist."""
    while (file := folder / position.name).exists():
        yield position.logOffset, file
        follows = json.loads(file.read_text().splitlines()[1]).get("follows", "")
        position = ListPosition(logOffset=position.logOffset - 1, digest=follows)
