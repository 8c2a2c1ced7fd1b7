"""Runs a world seed by seed: for tests, and as a program."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol


class SeededWorld(Protocol):
    """One story, drawn from a seed. `figures`: how often each thing has happened in it."""

    figures: Counter[str]

    def run(self) -> list[str]:
        """What is wrong; empty if nothing is."""
        ...


WorldOf = Callable[[int], SeededWorld]


def no_seed_is_bad(world_of: WorldOf, seeds: Iterable[int], fires: Sequence[str]) -> None:
    """Every story is well, and together they have each of these figures."""
    figures: Counter[str] = Counter()
    for seed in seeds:
        world = world_of(seed)
        assert world.run() == [], seed
        figures += world.figures
    assert [each for each in fires if not figures[each]] == []


def gives_the_same_every_time(world_of: WorldOf, seed: int) -> None:
    first, again = world_of(seed), world_of(seed)
    assert first.run() == again.run()
    assert first.figures == again.figures != Counter()


def main_of(prog: str, world_of: WorldOf) -> int:
    """A program that runs many seeds, and prints the bad ones and all figures. Its exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {prog}")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--stop", action="store_true", help="stop at the first bad seed")
    arguments = parser.parse_args()
    logging.disable()
    figures: Counter[str] = Counter()
    bad = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        world = world_of(seed)
        troubles = world.run()
        figures += world.figures
        if troubles:
            bad += 1
            print(f"BAD seed {seed}: {troubles[0]}", flush=True)
            if arguments.stop:
                break
    for name, times in sorted(figures.items()):
        print(f"{name:40} {times:9}")
    print(f"{arguments.seeds} seeds, {bad} bad")
    return 1 if bad else 0
