"""Prints tables, ages and times. Rich is imported only on a terminal, while it waits: the import takes longer than a
whole `tidegate list`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from unicodedata import east_asian_width


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    number: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """A table on the standard output. No cell is cut, so that every value can be copied."""
    heads = [column.name for column in columns]
    drawn = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(_width, cells)) for cells in zip(heads, *drawn, strict=True)]
    print(_line(columns, widths, heads))
    rule = "─" if can_show("─") else "-"
    print("  ".join(rule * width for width in widths))
    for row in drawn:
        print(_line(columns, widths, row))


def can_show(character: str) -> bool:
    """True if the standard output can print this character."""
    try:
        character.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    drawn = (
        f"{blanks}{cell}" if column.number else f"{cell}{blanks}"
        for column, width, cell in zip(columns, widths, cells, strict=True)
        for blanks in [" " * (width - _width(cell))]
    )
    return "  ".join(drawn).rstrip()


def _printable(cell: str) -> str:
    """The cell as one line, without terminal control characters."""
    return "".join(each if each.isprintable() else " " for each in cell)


def _width(cell: str) -> int:
    """The terminal columns of a cell: some characters are two columns wide."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in cell)


@contextmanager
def show_waiting(doing: str) -> Generator[Callable[[str], None], None, None]:
    """Yields a function to call while waiting. On a terminal it shows the awaited event and the time; elsewhere it does
    nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape

    begun = time.monotonic()
    with Console(stderr=True, highlight=False).status(escape(doing)) as status:
        yield lambda what: status.update(escape(f"{doing}: waiting for {what} ({time.monotonic() - begun:.0f} s)"))


def moment(at: float | None) -> str:
    """A time in the local zone; a dash for an invalid time of a damaged file."""
    try:
        return "-" if at is None else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "-"


def ago(at: float | None, now: float) -> str:
    """The age of an event."""
    return "-" if at is None else f"{span(max(0.0, now - at))} ago"


def span(seconds: float) -> str:
    """A duration in one unit: `3 s`, `5 min`, `2 h`, `4 d`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def number(value: float | None) -> str:
    """A number with at most one decimal, or a dash."""
    return "-" if value is None else f"{value:.1f}".removesuffix(".0")
