"""Removes or archives files that are done, when no reading (the use of the source by one query) can need them again.

A file is removed when its list is older than everything that any reading can resume from. Each reading goes through its
own lists once. If another reading has not read a file yet, the file is removed later, when that reading goes through
its own list. After a kill, the next start continues, because a list is kept until its files are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.core.errors import TidegateError
from tidegate.sources.files.listing import Files, FileStamp, hidden_name
from tidegate.sources.files.lists import Listed
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.runs import UNKNOWN, stamp_of

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class DoneReading:
    """A reading, and the number of its newest list that no resume or restore needs; -1 if there is none."""

    log: FileLog
    number: int


@dataclass(slots=True)
class Cleaning:
    """Removes the files of a source, or moves them. `archive`: the folder to move them to; None: they are removed."""

    files: Files
    archive: str | None
    where: str
    _gone_through: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    def clean(self, readings: Sequence[DoneReading]) -> None:
        """Remove or move all files that no reading needs.

        A failure is logged as a warning and tried again at the next start.
        """
        for reading in readings:
            through = self._gone_through.setdefault(str(reading.log.folder), set())
            for position in reading.log.lists_up_to(reading.number):
                if position.logOffset not in through:
                    for listed in self._free(reading.log.files_of(position), readings):
                        self._let_go(listed)
                    through.add(position.logOffset)

    def is_needed(self, log: FileLog, number: int) -> bool:
        """True if the list may have files that are still to be removed."""
        return number not in self._gone_through.get(str(log.folder), ())

    def _free(self, listed: Sequence[Listed], readings: Sequence[DoneReading]) -> Iterator[Listed]:
        """The listed files that every reading has read and does not need any more."""
        names = [each.path for each in listed]
        found = [(reading.number, reading.log.find(names)) for reading in readings]
        for each in listed:
            wanted = {UNKNOWN} if each.size is None else {UNKNOWN, stamp_of(each.size, each.mtime_ns)}
            if all(
                any(number <= behind and stamp in wanted for stamp, number in entries.get(each.path, ()))
                for behind, entries in found
            ):
                yield each

    def _let_go(self, listed: Listed) -> None:
        """Rename a file to a hidden name, check it there, and remove or move it.

        Under the hidden name no other program replaces the file. If it is not the file that was read, it is renamed
        back.
        """
        hidden = hidden_name(listed.path)
        try:
            if self.files.look(hidden) is not None:  # a killed process has left it
                self._settle(listed, hidden, None)
            seen, mark = self.files.look(listed.path), self.files.mark(listed.path)
            if seen is None or not listed.fits(seen) or self.files.look(hidden) is not None:
                return  # gone, or another file of that name: it was not read
            self.files.rename(listed.path, hidden)
            self._settle(listed, hidden, mark)
        except FileNotFoundError:
            return  # another program has removed it
        except (OSError, TidegateError) as error:
            doing = "removed" if self.archive is None else f"moved to {self.archive}"
            _LOG.warning("%s: %s is not %s (%s)", self.where, listed.path, doing, error)

    def _settle(self, listed: Listed, hidden: str, before: FileStamp | None) -> None:
        """Remove or move the file with the hidden name, or rename it back if it is not the listed one.

        `before`: the stamp of the file before it was hidden; None if it is not known.
        """
        seen, mark = self.files.look(hidden), self.files.mark(hidden)
        if seen is None:
            return
        is_other = before is not None and mark is not None and mark.inode != before.inode
        if is_other or not listed.fits(seen):
            if not self.files.put_back(hidden, listed.path):
                text = "%s: %s was replaced twice while it went; what came between is not read, and stands in %s"
                _LOG.warning(text, self.where, listed.path, hidden, extra={"event": "FileHidden"})
        elif self.archive is None:
            self.files.remove(hidden)
        else:
            self.files.move(hidden, self.archive, listed.path)
