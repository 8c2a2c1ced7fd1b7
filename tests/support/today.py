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
    """`cases` of a test, of which the next `count` run today, and the others with `-m more`. `every`: only on one of so
    many days, that of the number `on`, and on the others none. It counts its days itself: with `turn` beside it some
    cases would never come.
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
