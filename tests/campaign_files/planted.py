"""Bugs for the checker to find: each breaks one rule of the file source in the drivers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tidegate.sources.files.after_done import Cleaning, DoneReading
from tidegate.sources.files.choosing import Settling
from tidegate.sources.files.listing import SeenFile
from tidegate.sources.files.lists import Listed, ListPosition
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.reader import FileReader
from tidegate.sources.files.runs import stamp_of


def plant(name: str | None) -> None:
    """Plant the bug in this process; again changes nothing."""
    if name is not None:
        PLANTED[name]()


def _no_settling() -> None:
    def settled(
        self: Settling, new: Iterable[SeenFile], clock: float, now_ns: int
    ) -> tuple[list[SeenFile], list[SeenFile]]:
        del self, clock, now_ns
        return list(new), []

    Settling.settled = settled


def _index_before_list() -> None:
    """A name is known, for good, before Spark's log names its list: who is killed between never reads the file."""
    if _PLACED:
        return
    write, find = FileLog.write, FileLog.find

    def writes(self: FileLog, after: ListPosition, files: Sequence[Listed]) -> ListPosition:
        number = after.logOffset + 1
        known = {each.path: (stamp_of(each.size or 0, each.mtime_ns), number) for each in files}
        _early(self).write_text(json.dumps({**{name: found for name, (found, *_) in _names(self).items()}, **known}))
        return write(self, after, files)

    def finds(self: FileLog, names: Sequence[str]) -> Mapping[str, Sequence[tuple[int, int]]]:
        found, early = find(self, names), _names(self)
        return {name: [*found.get(name, ()), *early.get(name, ())] for name in {*found, *(early.keys() & set(names))}}

    _PLACED.extend([writes, finds])
    FileLog.write, FileLog.find = writes, finds


def _names(log: FileLog) -> dict[str, list[tuple[int, int]]]:
    file = _early(log)
    known: dict[str, list[int]] = json.loads(file.read_text()) if file.exists() else {}
    return {name: [(stamp, number)] for name, (stamp, number) in known.items()}


def _early(log: FileLog) -> Path:
    folder = log.folder.local()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / ".early"


def _fastest_query_is_enough() -> None:
    def free(self: Cleaning, listed: Sequence[Listed], readings: Sequence[DoneReading]) -> Iterator[Listed]:
        del self, readings
        yield from listed

    _replace(Cleaning, "_free", free)


def _lost_without_a_word() -> None:
    def still_there(self: FileReader, listed: Sequence[Listed]) -> list[Listed]:
        return [each for each in listed if self.files.look(each.path) is not None]

    _replace(FileReader, "_still_there", still_there)


def _replace(owner: type, name: str, method: Callable[..., object]) -> None:
    setattr(owner, name, method)


_PLACED: list[object] = []

PLANTED: Mapping[str, Callable[[], None]] = {
    "no settling": _no_settling,
    "index before list": _index_before_list,
    "the fastest query is enough": _fastest_query_is_enough,
    "lost without a word": _lost_without_a_word,
}
