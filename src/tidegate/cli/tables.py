"""How the commands show things to people: tables, ages, times. Rich is imported when something is shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    number: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """A table on the standard output. Cells are shown as they are, and never cut where the output is no terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column.name, justify="right" if column.number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().splitlines():
        print(line.rstrip())  # a table that goes into a file, or is copied, has no blanks at its right edge


@contextmanager
def show_waiting(doing: str) -> Generator[Callable[[str], None], None, None]:
    """Gives what to call while waiting: on a terminal a line says for what and how long, elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape

    begun = time.monotonic()
    with Console(stderr=True, highlight=False).status(escape(doing)) as status:
        yield lambda what: status.update(escape(f"{doing}: waiting for {what} ({time.monotonic() - begun:.0f} s)"))


def moment(at: float | None) -> str:
    """A time of the clock, in the local zone."""
    return "-" if at is None else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def ago(at: float | None, now: float) -> str:
    """How long ago something was."""
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


_WIDE = 200
