"""What happens in a job, in Python's logging."""

from __future__ import annotations

import logging

from tidegate.core.effects import Happening
from tidegate.core.happenings import (
    DeadLettersWritten,
    EpochFailed,
    EpochGetsMoreTime,
    RowsGivenUp,
    TransactionRedone,
)
from tidegate.jobs.logs import log_happening
from tidegate.spark.companions import Companion

_SHOWN_UNASKED = (RowsGivenUp, DeadLettersWritten, TransactionRedone, EpochFailed, EpochGetsMoreTime)
"""What a user should see without any set-up of logging: Python shows warnings by itself."""


class Log(Companion):
    """Writes every happening to Python's logging, under the name `tidegate`."""

    def __init__(self, job: str) -> None:
        self._job = job

    def happened(self, query: str, run: int, happening: Happening) -> None:
        level = logging.WARNING if isinstance(happening, _SHOWN_UNASKED) else logging.INFO
        log_happening(level, happening, job=self._job, query=query, run=run or None)
