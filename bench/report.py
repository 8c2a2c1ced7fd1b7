"""The tables of `docs/benchmarks.md` and of `./dev bench`, drawn from the newest files in `bench/results`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bench.figures import Figure, Machine, Results

RESULTS = Path(__file__).parent / "results"


def newest(suite: str) -> Results | None:
    """The newest results of a suite that are kept: their names are times."""
    files = sorted(RESULTS.glob(f"{suite}-*.json"))
    return msgspec.json.decode(files[-1].read_bytes(), type=Results) if files else None


BY_ALIGNMENT = "barrier-lag-"
"""Figures whose names begin so have a table of their own: `alignments_table`."""


def markdown_table(suite: str) -> str:
    """The newest results as a table, and under it where and when they were measured."""
    results = newest(suite)
    if results is None:
        return _none_of(suite)
    lines = [
        "| measured | baseline | tidegate | figure | goal |",
        "|---|---|---|---|---|",
        *(_row(figure) for figure in results.figures if not figure.name.startswith(BY_ALIGNMENT)),
        "",
        f"{_rounds(results).capitalize()}, {results.measured}; {_where(results.machine)}.",
    ]
    return "\n".join(lines)


def alignments_table(suite: str) -> str:
    """Of the newest results what was measured of each alignment: one a row, the medians in columns."""
    results = newest(suite)
    found = [] if results is None else [each for each in results.figures if each.name.startswith(BY_ALIGNMENT)]
    if not found:
        return _none_of(suite)
    columns = ["alignment", *(name.removeprefix("tidegate ") for name in found[0].samples)]
    rows = [[each.name.removeprefix(BY_ALIGNMENT), *map(_number, each.medians().values())] for each in found]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [columns, ["---"] * len(columns), *rows])


def _none_of(suite: str) -> str:
    return f"No results are kept yet: `./dev bench {suite}` writes them."


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").removesuffix(".")


_HEADER = ("figure", "baseline", "tidegate", "value", "goal", "load")


def text_table(results: Results) -> str:
    """The figures for a terminal."""
    return _aligned([_HEADER, *map(_cells, results.figures)])


def table_of_all(suites: Iterable[str]) -> str:
    """The newest kept results of every suite in one table, and under it when and where each was measured."""
    kept = {suite: results for suite in suites if (results := newest(suite)) is not None}
    rows = [(suite, *_cells(figure)) for suite, results in kept.items() for figure in results.figures]
    told = [
        f"{suite}: {results.measured}, {_rounds(results)}; {_where(results.machine)}" for suite, results in kept.items()
    ]
    return "\n".join([_aligned([("suite", *_HEADER), *rows]), "", *told])


def _cells(figure: Figure) -> tuple[str, ...]:
    return (
        figure.name,
        _side(figure, "baseline"),
        _side(figure, "tidegate"),
        _value(figure),
        _goal(figure),
        _load(figure),
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _rounds(results: Results) -> str:
    return "one round" if results.rounds == 1 else f"medians of {results.rounds} rounds"


def _where(machine: Machine) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(machine.versions.items()))
    return (
        f"{machine.cores} cores ({machine.cpu}), {machine.memory_gib:g} GiB, {machine.system}, {machine.file_system}; "
        f"{versions}"
    )


def _row(figure: Figure) -> str:
    cells = (figure.what, _side(figure, "baseline"), _side(figure, "tidegate"), _value(figure), _goal(figure))
    return f"| {' | '.join(cells)} |"


def _side(figure: Figure, side: str) -> str:
    """The medians of one side: `97.5 ms epoch`, or what stood there early and late."""
    return ", ".join(
        f"{value:g} {name.removeprefix(f'{side} ')}"
        for name, value in figure.medians().items()
        if name.startswith(f"{side} ") or (side, name.split()[0]) in _ENDS
    )


_ENDS = {("baseline", "early"), ("tidegate", "late")}
"""Where no two sides are compared, the columns show the two moments."""


def _value(figure: Figure) -> str:
    return f"{figure.value:g} {figure.unit}"


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    return f"{figure.better.value} {figure.goal:g} {'met' if figure.is_met else 'missed'}"


def _load(figure: Figure) -> str:
    return f"{figure.load[0]:g}, {figure.load[1]:g}"
