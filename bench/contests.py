"""Two programs that do the same work, compared: the whole run, the run without its start, CPU time and memory.

*Whole*: from the start of the process until the last row can be read. *Net*: without what the same job takes for 2,000
events in the same round. A quick run has so few events that they are lost in what a start varies by, so it has no net
and no goals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from bench.figures import Better, Figure
from bench.watched import Course, Entrant, Outcome

EVENTS = 2_000_000
QUICK_EVENTS = 100_000
FEW_EVENTS = 2_000
WORKS: Mapping[str, str] = {
    "map": "each event parsed, changed and written",
    "count": "count and sum by 10,000 keys",
}


@dataclass(frozen=True, slots=True)
class Run:
    """The same job with few events, and with all."""

    few: Outcome
    whole: Outcome


class Quantity(Enum):
    """What is compared: the end of a figure's name, its words, the unit of its samples."""

    WHOLE = ("", "whole run", "s")
    NET = ("-net", "without the start", "s")
    CPU = ("-cpu", "CPU time of all processes", "CPU s")
    MEMORY = ("-memory", "largest memory of all processes", "MiB")

    def __init__(self, suffix: str, words: str, unit: str) -> None:
        self.suffix = suffix
        self.words = words
        self.unit = unit


_OF_RUN: Mapping[Quantity, Callable[[Run], float]] = {
    Quantity.WHOLE: lambda run: run.whole.seconds,
    Quantity.NET: lambda run: run.whole.seconds - run.few.seconds,
    Quantity.CPU: lambda run: run.whole.cpu_seconds,
    Quantity.MEMORY: lambda run: run.whole.peak_mib,
}
_IN_QUICK = (Quantity.WHOLE, Quantity.CPU, Quantity.MEMORY)


@dataclass(frozen=True, slots=True)
class Contest:
    """`suffix` makes the figures' names; `goals` has the largest ratio of tidegate to the baseline."""

    suffix: str
    what: str
    baseline: Entrant
    tidegate: Entrant
    goals: Mapping[Quantity, float]


def measure_contests(
    name: str, work: str, contests: Sequence[Contest], course: Course, rounds: int, *, quick: bool
) -> list[Figure]:
    """The figures of one work. In a round all programs take turns; what several contests share is run once."""
    many = QUICK_EVENTS if quick else EVENTS
    runs: dict[str, list[Run]] = {}
    entrants = {entrant.title: entrant for each in contests for entrant in (each.baseline, each.tidegate)}
    for _ in range(rounds):
        for title, entrant in entrants.items():
            few, whole = (course.run(entrant, work, events) for events in (FEW_EVENTS, many))
            runs.setdefault(title, []).append(Run(few, whole))
    return [
        figure_of(
            f"{name}{contest.suffix}{quantity.suffix}",
            f"{contest.what}: {WORKS[work]}; {quantity.words}",
            quantity,
            runs[contest.baseline.title],
            runs[contest.tidegate.title],
            goal=None if quick else contest.goals.get(quantity),
        )
        for contest in contests
        for quantity in (_IN_QUICK if quick else Quantity)
    ]


def figure_of(
    name: str, what: str, quantity: Quantity, baseline: Sequence[Run], tidegate: Sequence[Run], *, goal: float | None
) -> Figure:
    """Tidegate's median divided by the baseline's. Raises ValueError if a start took longer than the whole run."""
    take = _OF_RUN[quantity]
    samples = {
        f"{side} {quantity.unit}": [round(take(run), 3) for run in runs]
        for side, runs in (("baseline", baseline), ("tidegate", tidegate))
    }
    theirs, ours = map(median, samples.values())
    if min(ours, theirs) <= 0:
        raise ValueError(f"{name}: the starts alone took longer; measure where nothing else runs: {samples}")
    ratio = round(ours / theirs, 2)
    return Figure(name=name, what=what, value=ratio, unit="x", better=Better.LOWER, goal=goal, samples=samples)
