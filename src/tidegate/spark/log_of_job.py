"""The events of a job in Python's logging."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tidegate.core.effects import Happening
from tidegate.core.happenings import (
    DeadLettersWritten,
    EpochFailed,
    EpochGetsMoreTime,
    RowsGivenUp,
    RowsShownAgain,
    TransactionRedone,
)
from tidegate.logs.writing import log_happening
from tidegate.spark.companions import Companion

_SHOWN_UNASKED = (RowsGivenUp, RowsShownAgain, DeadLettersWritten, TransactionRedone, EpochFailed, EpochGetsMoreTime)
"""Shown without any configuration of logging: Python shows warnings by default."""


@dataclass(frozen=True, slots=True)
class DeadLettersOfRun:
    """The run has ended. For each query with dead letters: their sink and their number."""

    rows: dict[str, tuple[str, int]]

    def __str__(self) -> str:
        of_queries = ", ".join(
            f"{rows} rows of query {query!r} became dead letters (sink {sink!r})"
            for query, (sink, rows) in self.rows.items()
        )
        return f"this run has ended: {of_queries}"


class Log(Companion):
    """Writes every event to Python's logging, under the name `tidegate`."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._dead: dict[str, tuple[str, int]] = {}

    def happened(self, query: str, run: int, happening: Happening) -> None:
        level = logging.WARNING if isinstance(happening, _SHOWN_UNASKED) else logging.INFO
        log_happening(level, happening, job=self._job, query=query, run=run or None)
        if isinstance(happening, DeadLettersWritten):
            _, before = self._dead.get(query, ("", 0))
            self._dead[query] = happening.sink, before + happening.rows

    def ended(self, error: BaseException | None) -> None:
        if self._dead:
            log_happening(logging.WARNING, DeadLettersOfRun(self._dead), job=self._job)
