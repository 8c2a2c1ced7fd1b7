"""Where the task ran whose failure ended an epoch, from Spark's text."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor of a cluster, as Spark names it."""

    number: str
    host: str

    def __str__(self) -> str:
        return f"executor {self.number} on {self.host}"


def executor_of(error: BaseException) -> Executor | None:
    """The executor of the task that failed for good; None if no task did, or if it ran in the driver's own process."""
    found = _LOST.search(str(error))
    return None if found is None or found[2] == _DRIVER else Executor(number=found[2], host=found[1])


_LOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\S+)\)")
_DRIVER = "driver"
"""Spark's name for the executor inside the driver, with a local master."""
