"""Whether a stage has all of its rows: the number of rows that its INSERT has taken says it, and costs no look more.

It says nothing for a sink with a key, where the last row of a key wins, nor where a trigger leaves rows out. Then the
stages are counted before they are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from tidegate.core.records import Committable

GivenT = TypeVar("GivenT")


class NotAllTaken(Exception):
    """Another number of rows was taken than the stage must have. Rolls the transaction back."""


def in_one_look(commit: Callable[[bool], GivenT], *, has_key: bool) -> GivenT:
    """What `commit(counts)` gives, first without counting. `counts`: it must count the stages before it takes them.
    Otherwise `take_all` may end it.
    """
    if not has_key:
        with suppress(NotAllTaken):
            return commit(False)
    return commit(True)


def take_all(take: Callable[[Committable], int], in_task_order: Sequence[Committable], *, counted: bool) -> None:
    """Take the stages by `take`, which gives the number of rows. Raises NotAllTaken if they were not counted before,
    and one of them has another number.
    """
    for each in in_task_order:
        if take(each) != each.rows and not counted:
            raise NotAllTaken
