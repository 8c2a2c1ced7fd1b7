"""What becomes of files that are done: removed or moved, once no reading can ask for them again.

A file goes when every reading of the source has it behind what it can go back to. Each reading goes through its own
lists once: a file that another reading has not reached yet goes when that one goes through its list. What a killed
process has left undone comes again, for a list stays until its files are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.sources.files.listing import Files
from tidegate.sources.files.lists import Listed
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.runs import UNKNOWN, stamp_of

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class Behind:
    """A reading, and the newest of its lists that nothing goes back to; -1 for none."""

    log: FileLog
    number: int


@dataclass(slots=True)
class Cleaning:
    """`archive`: the folder that files are moved to; None: they are removed."""

    files: Files
    archive: str | None
    where: str
    _gone_through: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    def clean(self, readings: Sequence[Behind]) -> None:
        """Let files go. What fails is a warning, and comes again at the next start."""
        for reading in readings:
            through = self._gone_through.setdefault(str(reading.log.folder), set())
            for number in reading.log.lists_up_to(reading.number):
                if number not in through:
                    for listed in self._free(reading.log.files_of(number), readings):
                        self._let_go(listed)
                    through.add(number)

    def is_needed(self, log: FileLog, number: int) -> bool:
        """Whether the list has files that may have to go yet."""
        return number not in self._gone_through.get(str(log.folder), ())

    def _free(self, listed: Sequence[Listed], readings: Sequence[Behind]) -> Iterator[Listed]:
        """Those that every reading has behind it."""
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
        try:
            seen = self.files.look(listed.path)
            if seen is None or not listed.fits(seen):
                return  # another file of that name: it was not read
            if self.archive is None:
                self.files.remove(listed.path)
            else:
                self.files.move(listed.path, self.archive)
        except OSError as error:
            doing = "removed" if self.archive is None else f"moved to {self.archive}"
            _LOG.warning("%s: %s is not %s (%s)", self.where, listed.path, doing, error)
