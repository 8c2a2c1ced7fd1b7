"""Flame graphs as one SVG picture: a panel for each part of a program, with its CPU seconds.

The stacks come as lines of `a;b;c 12`: frames from the outermost in, and how often the stack was seen. A frame is as
wide as its share of the panel. Frames without a name of their own (lambdas, the machinery of Scala) are left out, and
those that would be too narrow to see.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

_WIDTH, _EDGE, _ROW, _TITLE = 1200, 16, 17, 34
_NARROWEST = 0.006
_DEEPEST = 26
_CHARACTER = 6.3
_NAMELESS = re.compile(
    r"Lambda|\$anonfun|^scala[./]|^jdk[./]internal|^java[./]lang[./]reflect|GeneratedMethod|withScope"
)
_INK, _CARD, _LINE = "#1f2430", "#fcfcfe", "#d9dde5"
_COLOURS = ("#f4b183", "#f6c28b", "#f2a56e", "#f8d3a4", "#eeb98f", "#f5c9a0")


@dataclass(slots=True)
class Frame:
    """One function in one place of the stacks. `seen`: in how many samples."""

    name: str
    seen: int = 0
    inner: dict[str, Frame] = field(default_factory=dict[str, "Frame"])

    def add(self, names: Sequence[str], times: int) -> None:
        """Add one stack below this frame."""
        at = self
        at.seen += times
        for name in names:
            at = at.inner.setdefault(name, Frame(name))
            at.seen += times

    def depth(self, least: float) -> int:
        """How many rows its frames take that are seen in at least so many samples."""
        return 1 + max((each.depth(least) for each in self.inner.values() if each.seen >= least), default=0)


@dataclass(frozen=True, slots=True)
class Panel:
    """The stacks of one part: its title, its CPU seconds, and the frame around all of its stacks."""

    title: str
    seconds: float
    root: Frame


def panel_of(title: str, stacks: Iterable[tuple[Sequence[str], int]], hertz: float) -> Panel:
    """A panel of stacks that were looked at so many times in each second of CPU time."""
    root = Frame(title)
    for names, times in stacks:
        root.add([name for name in names if not _NAMELESS.search(name)][:_DEEPEST], times)
    return Panel(title, round(root.seen / hertz, 1), root)


def drawn(title: str, panels: Sequence[Panel]) -> str:
    """The picture of all panels, one below the other."""
    rows = [panel.root.depth(_least(panel)) for panel in panels]
    height = 2 * _EDGE + sum(_TITLE + count * _ROW for count in rows)
    said = "; ".join(f"{panel.title} {panel.seconds} CPU seconds" for panel in panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="10.5">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(said)}</desc>",
        f'<rect x="1" y="1" width="{_WIDTH - 2}" height="{height - 2}" rx="12" fill="{_CARD}" stroke="{_LINE}"/>',
    ]
    y = _EDGE
    for panel, count in zip(panels, rows, strict=True):
        words = f"{panel.title}: {panel.seconds} CPU s"
        lines.append(f'<text x="{_EDGE}" y="{y + 20}" font-size="14" fill="{_INK}">{escape(words)}</text>')
        y += _TITLE
        lines += _rows(panel.root, _EDGE, y, (_WIDTH - 2 * _EDGE) / max(panel.root.seen, 1), _least(panel))
        y += count * _ROW
    return "\n".join([*lines, "</svg>", ""])


def _least(panel: Panel) -> float:
    return panel.root.seen * _NARROWEST


def _rows(frame: Frame, x: float, y: float, scale: float, least: float) -> Iterator[str]:
    width = frame.seen * scale
    colour = _COLOURS[crc32(frame.name.encode()) % len(_COLOURS)]
    room = int((width - 4) / _CHARACTER)
    words = frame.name if len(frame.name) <= room else frame.name[: room - 1] + "…" if room > 3 else ""
    yield f'<g><title>{escape(frame.name)}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 1}" '
    yield f'fill="{colour}"/>'
    if words:
        yield f'<text x="{x + 2:.1f}" y="{y + 12}" fill="{_INK}">{escape(words)}</text>'
    yield "</g>"
    for each in sorted(frame.inner.values(), key=lambda each: each.name):
        if each.seen >= least:
            yield from _rows(each, x, y + _ROW, scale, least)
            x += each.seen * scale
