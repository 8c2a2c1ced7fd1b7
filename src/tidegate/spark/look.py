"""Facts about the running epoch, each read in the JVM in one call: its state, the rows that its sources have given, and
whether it is logged.

Through Py4J each node of a plan costs several round trips: about 100 for an epoch with one aggregation (12 ms; 2 ms
here). The class is `java/TidegateLook.java`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tidegate.spark.compiled import class_of


@dataclass(slots=True)
class OperatorState:
    """One stateful operator: the ids of its state files by partition, those of the files that it began with, and the
    number of successes of each partition. `rows` is None if Spark's count is not that of the state.
    """

    ids: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    base: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    successes: Counter[int] = field(default_factory=Counter[int])
    rows: int | None = None


class PlanLook:
    """The compiled class, for the plans of one JVM."""

    def __init__(self, jvm: Any, class_loader: Any) -> None:
        self._look: Any = class_of(jvm, class_loader, "TidegateLook").newInstance()

    def begins(self, execution: Any) -> None:
        """Spark has begun an epoch, which is not logged yet."""
        self._look.begins(execution)

    def has_logged(self, execution: Any) -> bool:
        """True if Spark has written the entry in `commits` of the epoch that has begun last."""
        return bool(self._look.hasLogged(execution))

    def state_of(self, plan: Any, *, names_files: bool) -> tuple[dict[str, OperatorState], int | None]:
        """The stateful operators in an executed plan, by their ids, and the rows that its sources have given (None if
        the plan does not tell). Read after the epoch's one action.
        """
        found: dict[str, OperatorState] = {}
        read: int | None = None
        for line in self._look.state(plan, names_files).splitlines():
            what, operator, number, *rest = line.split(" ")
            if what == "read":
                read = int(number)
                continue
            state = found.setdefault(operator, OperatorState())
            match what:
                case "success":
                    state.successes[int(number)] += 1
                case "ids":
                    state.ids[int(number)] = rest
                case "base":
                    state.base[int(number)] = rest
                case _:
                    state.rows = _rows(int(number), *map(int, rest))
        return found, read


def _rows(partitions: int, stores: int, rows: int) -> int | None:
    """Every task adds its stores and their rows once; a join has one store or four. None if a task was computed twice
    after its output was lost, because then its rows are counted twice.
    """
    return rows if stores in (partitions, 4 * partitions) else None
