"""Which sample of many cases the tests run: another one each day, the same one for a seed that is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

TestT = TypeVar("TestT", bound=Callable[..., object])


def today() -> int:
    """`TIDEGATE_SEED`, or the number of the day."""
    return int(os.environ.get("TIDEGATE_SEED") or datetime.now(timezone.utc).toordinal())


def sampled(cases: Sequence[ParameterSet], count: int = 1, *, every: int = 1, on: int = 0) -> list[ParameterSet]:
    """The cases of a test. Some of them run today; the others run with `-m more`.

    `count`: the number of cases that run on one day. The next day takes the next cases. `every`, `on`: the test has
    cases only on one day of each `every` days. The number of that day is `on`, from 0. A test with `every` needs no
    `turn`: with both, some cases would never run.
    """
    day, rest = divmod(today(), every)
    chosen = {(day * count + number) % len(cases) for number in range(count)} if rest == on else set[int]()
    return [
        case if number in chosen else pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.more])
        for number, case in enumerate(cases)
    ]


def turn(number: int, *, of: int) -> Callable[[TestT], TestT]:
    """For a test whose kind another one shows as well: it runs on each day of its number, else with `-m more`."""
    return (lambda test: test) if today() % of == number else pytest.mark.more
