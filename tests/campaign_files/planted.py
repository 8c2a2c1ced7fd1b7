"""Bugs for the checker to find: each breaks one rule of the file source in the drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tidegate.sources.files.after_done import Behind, Cleaning
from tidegate.sources.files.choosing import Settling
from tidegate.sources.files.listing import Seen
from tidegate.sources.files.lists import Listed
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.reader import FileReader


def plant(name: str | None) -> None:
    """Plant the bug in this process; again changes nothing."""
    if name is not None:
        PLANTED[name]()


def _no_settling() -> None:
    def settled(self: Settling, new: Iterable[Seen], clock: float, now_ns: int) -> tuple[list[Seen], list[Seen]]:
        del self, clock, now_ns
        return list(new), []

    Settling.settled = settled


def _index_before_list() -> None:
    """A name is known, for good, before Spark's log names its list: who is killed between never reads the file."""
    if _OPENS in _PLACED:
        return
    _PLACED.add(_OPENS)
    opens = FileLog.open

    def open_(self: FileLog, reached: int) -> None:
        names = [path.name for path in self.folder.glob("*")]
        opens(self, max([reached, *map(int, filter(str.isdigit, names))]))

    FileLog.open = open_


def _fastest_query_is_enough() -> None:
    def free(self: Cleaning, listed: Sequence[Listed], readings: Sequence[Behind]) -> Iterator[Listed]:
        del self, readings
        yield from listed

    _replace(Cleaning, "_free", free)


def _lost_without_a_word() -> None:
    def still_there(self: FileReader, listed: Sequence[Listed]) -> list[Listed]:
        return [each for each in listed if self.files.look(each.path) is not None]

    _replace(FileReader, "_still_there", still_there)


def _replace(owner: type, name: str, method: Callable[..., object]) -> None:
    setattr(owner, name, method)


_OPENS = "index before list"
_PLACED: set[str] = set()

PLANTED: Mapping[str, Callable[[], None]] = {
    "no settling": _no_settling,
    "index before list": _index_before_list,
    "the fastest query is enough": _fastest_query_is_enough,
    "lost without a word": _lost_without_a_word,
}
