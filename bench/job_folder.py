"""How many files a job's folder holds, and of what size: by its parts, and how they have grown between two epochs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Better, Figure

_GOAL_PERCENT = 10.0
"""What is kept for each epoch would grow by hundreds; records that come and go are seen a few more or less."""
_GOALS_PERCENT: Mapping[str, float] = {"spark/state": 25.0}
"""Spark cleans up once a minute: how much there is until then follows the speed of the epochs."""


@dataclass(frozen=True, slots=True)
class Amount:
    files: int
    size: int
    """In bytes."""


def parts_of(folder: Path) -> dict[str, Amount]:
    """The parts of a job's folder as it is now, which others are changing."""
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            part = _part(path.relative_to(folder))
            try:
                sizes[part] += path.stat().st_size
            except FileNotFoundError:  # cleaned up meanwhile
                continue
            files[part] += 1
    return {part: Amount(files[part], sizes[part]) for part in files}


def largest(looks: Iterable[Mapping[str, Amount]]) -> dict[str, Amount]:
    """The most files and the most bytes of each part in several looks: between two clean-ups a part grows."""
    most: dict[str, Amount] = {}
    for look in looks:
        for part, amount in look.items():
            before = most.get(part, Amount(0, 0))
            most[part] = Amount(max(before.files, amount.files), max(before.size, amount.size))
    return most


def folder_growth(early: Mapping[str, Amount], late: Mapping[str, Amount], between: str) -> list[Figure]:
    """A figure a part: how much more files or bytes, whichever has grown more. `between`: `from epoch 3 to 9`."""
    return [
        _grown(part, early.get(part, Amount(0, 0)), late.get(part, Amount(0, 0)), between)
        for part in sorted({*early, *late})
    ]


def _grown(part: str, early: Amount, late: Amount, between: str) -> Figure:
    return Figure(
        name=f"job-files-{part.replace('/', '-')}",
        what=f"growth of `{part}` in the job's folder {between}: files or bytes, whichever is more",
        value=round(max(_percent(early.files, late.files), _percent(early.size, late.size)), 1),
        unit="%",
        better=Better.LOWER,
        goal=_GOALS_PERCENT.get(part, _GOAL_PERCENT),
        samples={
            "early files": [float(early.files)],
            "early KiB": [round(early.size / 1024, 1)],
            "late files": [float(late.files)],
            "late KiB": [round(late.size / 1024, 1)],
        },
    )


def _percent(early: int, late: int) -> float:
    return (late - early) / max(early, 1) * 100


def _part(path: Path) -> str:
    """`control`, or `spark/offsets` for what a query has; a file that lies in no sub-folder is its own part."""
    match path.parts:
        case ("queries", _, _, "spark", part, *rest):
            return f"spark/{part}" if rest else "spark"
        case ("queries", _, _, part, *_):
            return part
        case (part, *_):
            return part
        case _:
            raise ValueError("no file has no name")
