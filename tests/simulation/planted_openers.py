"""The rules of openers, restores and `forget` off a disk, each broken on purpose: the world of openers sees it.

`python -m tests.simulation.planted_openers` tries them all.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final
from unittest import mock

from tests.simulation import restores_world
from tests.simulation.openers_world import World
from tests.simulation.restores_world import WorldWithRestores
from tidegate.checkpoints import retention, succession
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import DECIDED
from tidegate.core.levels import Level
from tidegate.savepoints import continued, fresh, restore, settled
from tidegate.spark.given_up import GivenUp
from tidegate.storages.storage import Storage

_SEARCHED: Final = 1000


@dataclass(frozen=True, slots=True)
class PlantedOpener:
    """A broken rule: these names of these modules have another value. `near`: just below a bad seed of `world`."""

    rule: str
    near: int
    wrong: Mapping[tuple[ModuleType, str], Callable[..., Any]] = field(
        default_factory=dict[tuple[ModuleType, str], Callable[..., Any]]
    )
    world: type[World] = World


def try_planted(bug: PlantedOpener, *, first: int, seeds: int) -> str:
    """What the first bad seed says; empty if there is none."""
    with ExitStack() as stack:
        for (module, name), wrong in bug.wrong.items():
            stack.enter_context(mock.patch.object(module, name, wrong))
        for seed in range(first, first + seeds):
            if found := bug.world(seed).run():
                return f"seed {seed}: {found[0].splitlines()[0]}"
    return ""


def _nothing(*_: object) -> None:
    pass


def _with_its_decisions(generation: Storage) -> None:
    _CLEAR_GENERATION(generation)
    for name in generation.list(DECIDED)[:-1]:
        generation.delete(f"{DECIDED}/{name}")


def _whoever_was_faster(*given: Any) -> None:
    with suppress(TidegateError):
        succession.open_next(*given)


class _NoSeal(GivenUp):
    def seal(self, level: Level, patience_seconds: float, reach: Callable[[str], None]) -> bool:
        return False


_CLEAR_GENERATION = retention._clear_generation  # pyright: ignore[reportPrivateUsage]
_OPENERS = (succession, fresh, continued)

PLANTED_OPENERS: Final = (
    PlantedOpener("a sealed generation is continued", 0, {(continued, "is_sealed"): lambda *_: False}),
    PlantedOpener("what may count is not cleared", 10, {(settled, "give_up"): lambda *_: True}),
    PlantedOpener("no two generations have one number", 0, {(module, "reserve"): _nothing for module in _OPENERS}),
    PlantedOpener("what was given up never counts", 24, {(restore, "end_preparation"): _nothing}),
    PlantedOpener("one generation follows another", 498, {(restore, "open_next"): _whoever_was_faster}),
    PlantedOpener(
        "a forget removes generations of its job",
        2195,
        {(retention, "reserved_for"): lambda all, _: succession.reserved(all)},
    ),
    PlantedOpener("a forgotten generation is sealed", 10, {(retention, "_seal"): _nothing}),
    PlantedOpener("decisions of a forgotten job stay", 3001, {(retention, "_clear_generation"): _with_its_decisions}),
    PlantedOpener("a job begins when the last one is cleared", 1030, {(succession, "job_to_clear"): _nothing}),
    PlantedOpener("a restore has a number of its own", 105, {(restore, "reserve"): _nothing}, WorldWithRestores),
    PlantedOpener("a restored generation has its files", 2, {(restore, "bring"): lambda *_: []}, WorldWithRestores),
    PlantedOpener("a restore seals what it replaces", 34, {(restores_world, "GivenUp"): _NoSeal}, WorldWithRestores),
    PlantedOpener(
        "a restore that is given up never counts", 30, {(restore, "end_preparation"): _nothing}, WorldWithRestores
    ),
    PlantedOpener(
        "one restore follows a generation", 546, {(restore, "open_next"): _whoever_was_faster}, WorldWithRestores
    ),
)


def main() -> int:
    logging.disable(logging.CRITICAL)
    missed = 0
    for bug in PLANTED_OPENERS:
        seen = try_planted(bug, first=bug.near, seeds=_SEARCHED)
        missed += not seen
        print(f"{bug.rule:45} {seen[:100] or 'NOT CAUGHT'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
