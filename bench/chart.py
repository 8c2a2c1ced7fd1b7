"""The chart of `docs/benchmarks.md`: 2,000,000 events from topic to topic through each system, drawn from the newest
kept results.

A bar is the time until the last row can be read. Its lighter part is the start: what the same job takes for 2,000
events. A system without a result has no bar. The colours are read on a card of their own, on a light and a dark page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil

from bench.contests import WORKS, Quantity
from bench.figures import Figure, Results
from bench.report import newest


@dataclass(frozen=True, slots=True)
class System:
    """One bar of each work: the suite and the figure that have it, and the side of the figure."""

    title: str
    suite: str
    figure: str
    side: str
    colour: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Seconds of the whole run, of them the start."""

    system: System
    whole: float
    start: float


SYSTEMS: Sequence[System] = (
    System("PyFlink SQL", "flink", "kafka-flink-{work}", "baseline", "#b26a00"),
    System("tidegate, exactly-once", "flink", "kafka-flink-{work}", "tidegate", "#1d8a4e"),
    System("tidegate, at-least-once", "flink", "kafka-flink-{work}-level", "tidegate", "#4c9f9a"),
    System("Spark's own sink, at-least-once", "other", "kafka-spark-{work}", "baseline", "#2f6fde"),
    System("Quix Streams, exactly-once", "other", "kafka-quix-{work}", "baseline", "#8a4fc2"),
    System("Bytewax, at-least-once", "other", "kafka-bytewax-{work}", "baseline", "#c8372d"),
)
_UNIT = Quantity.WHOLE.unit

_WIDTH, _LEFT, _RIGHT = 900, 250, 90
_TOP, _TITLE, _BAR, _GAP, _AXIS = 34, 34, 20, 8, 56
_TICKS = 6
_INK, _GREY, _LINE, _CARD, _EDGE = "#1f2430", "#5b6475", "#d9dde5", "#fcfcfe", "#d9dde5"
_NOTHING = "No results are kept yet: ./dev bench flink writes them."
_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200)


def bars_of(work: str, results: Mapping[str, Results | None]) -> list[Bar]:
    """The bars of one work, from the newest results of each suite."""
    bars: list[Bar] = []
    for system in SYSTEMS:
        kept = results.get(system.suite)
        figures = {figure.name: figure for figure in kept.figures} if kept else {}
        name = system.figure.format(work=work)
        whole, net = (figures.get(f"{name}{each.suffix}") for each in (Quantity.WHOLE, Quantity.NET))
        if whole is not None and net is not None:
            seconds = _seconds(whole, system)
            bars.append(Bar(system, seconds, max(0.0, round(seconds - _seconds(net, system), 3))))
    return bars


def _seconds(figure: Figure, system: System) -> float:
    return figure.medians()[f"{system.side} {_UNIT}"]


def svg() -> str:
    """The chart of the results that are kept."""
    results = {suite: newest(suite) for suite in dict.fromkeys(system.suite for system in SYSTEMS)}
    return drawn({work: bars_of(work, results) for work in WORKS})


def drawn(works: Mapping[str, Sequence[Bar]]) -> str:
    """The chart, one group of bars a work, all on one axis."""
    shown = {work: bars for work, bars in works.items() if bars}
    step = _step(max((bar.whole for bars in shown.values() for bar in bars), default=1.0))
    end = step * ceil(max((bar.whole for bars in shown.values() for bar in bars), default=1.0) / step)
    scale = (_WIDTH - _LEFT - _RIGHT) / end
    rows = sum(_TITLE + len(bars) * (_BAR + _GAP) for bars in shown.values())
    height, bottom = _TOP + rows + _AXIS, _TOP + rows
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif">',
            "<title>2,000,000 events from topic to topic</title>",
            f"<desc>{escape(_described(shown))}</desc>",
            f'<rect x="1" y="1" width="{_WIDTH - 2}" height="{height - 2}" rx="12" fill="{_CARD}" stroke="{_EDGE}"/>',
            *_axis(step, end, scale, bottom),
            *(_groups(shown, scale) if shown else [_text(24, 30, _NOTHING)]),
            "</svg>",
            "",
        ]
    )


def _step(longest: float) -> int:
    return next((step for step in _STEPS if longest / step <= _TICKS), _STEPS[-1])


def _described(works: Mapping[str, Sequence[Bar]]) -> str:
    said = [
        f"{WORKS[work]}: " + ", ".join(f"{b.system.title} {b.whole:.1f} s" for b in bars)
        for work, bars in works.items()
    ]
    return "; ".join(said) or _NOTHING


def _axis(step: int, end: int, scale: float, bottom: int) -> Iterator[str]:
    for second in range(0, end + 1, step):
        x = _LEFT + second * scale
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{_LINE}"/>'
        yield _text(x, bottom + 18, str(second), anchor="middle", colour=_GREY)
    words = "seconds from the start of the process until the last row can be read; lighter: the start (2,000 events)"
    yield _text(_WIDTH / 2, bottom + 40, words, anchor="middle", colour=_GREY)


def _groups(works: Mapping[str, Sequence[Bar]], scale: float) -> Iterator[str]:
    y = _TOP
    for work, bars in works.items():
        yield _text(24, y + 22, f"{work}: {WORKS[work]}", size=15, weight=600)
        y += _TITLE
        for bar in bars:
            yield from _bar(bar, y, scale)
            y += _BAR + _GAP


def _bar(bar: Bar, y: int, scale: float) -> Iterator[str]:
    start, whole = bar.start * scale, bar.whole * scale
    middle, colour = y + _BAR - 6, bar.system.colour
    yield _text(_LEFT - 10, middle, bar.system.title, anchor="end")
    yield f'<rect x="{_LEFT}" y="{y}" width="{start:.1f}" height="{_BAR}" fill="{colour}" fill-opacity="0.45"/>'
    yield f'<rect x="{_LEFT + start:.1f}" y="{y}" width="{whole - start:.1f}" height="{_BAR}" fill="{colour}"/>'
    yield _text(_LEFT + whole + 8, middle, f"{bar.whole:.1f} s")


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", colour: str = _INK, size: int = 14, weight: int = 400
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" font-weight="{weight}" fill="{colour}">{escape(words)}</text>'
