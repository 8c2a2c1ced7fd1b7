"""Many cases in two processes: which, how many were bad, and the key of each bad one."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from tests.world.configurations import CONFIGURATIONS
from tests.world.enumeration import Family, Stem, expand, stems
from tests.world.world import run_case


@dataclass(frozen=True, slots=True)
class Part:
    """One family in one configuration; about one of its cases in `stride`, and `seed` says which."""

    family: Family
    configuration: str
    stride: int = 1
    seed: int = 0


@dataclass(slots=True)
class Result:
    """What a part has given: the number of runs, and (key, first complaint) of each bad one."""

    runs: int = 0
    bad: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def parts(*, everything: bool, seed: int = 0) -> list[Part]:
    """What the tests run, or everything."""
    return [
        Part(family, name, 1 if everything else _stride(family, name), seed)
        for family in Family
        for name, configuration in CONFIGURATIONS.items()
        if not (family in (Family.STALL, Family.REDO) and configuration.local_lease)
    ]


def _stride(family: Family, configuration: str) -> int:
    if (family, configuration) in _SHORT:
        return 13
    return {
        Family.SINGLE: 11,
        Family.KILLS: 389,
        Family.PAIR: 2399,
        Family.STALL: 257,
        Family.LATE: 3,
        Family.REDO: 113,
    }[family]


_SHORT: Final = frozenset(
    {
        (Family.KILLS, "short-sk"),
        (Family.STALL, "short-stateful-remote"),
        (Family.STALL, "short-stateless-remote"),
    }
)
"""Small enough that a good part of all their cases is run each time."""


def run_part(part: Part, *, processes: int = 2, stop: bool = False) -> Result:
    """All cases of a part; with `stop` it ends soon after the first bad one."""
    result = Result()
    for runs, bad in _outcomes(stems(part.family, part.configuration, part.stride, part.seed), processes, stop):
        result.runs += runs
        result.bad += bad
        if stop and bad:
            break
    return result


def _outcomes(work: Sequence[Stem], processes: int, stop: bool) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    if processes == 1:
        for stem in work:
            yield _run_stem(stem, stop)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_run_stem, work, [stop] * len(work), chunksize=4)


def _run_stem(stem: Stem, stop: bool) -> tuple[int, list[tuple[str, str]]]:
    runs, bad = 0, list[tuple[str, str]]()
    gc.disable()  # a run is short and full of generators: collected between the stems
    for case in expand(stem):
        runs += 1
        complaints = run_case(case)
        if complaints:
            bad.append((case.key, complaints[0].splitlines()[0]))
            if stop:
                break
    gc.enable()
    return runs, bad
