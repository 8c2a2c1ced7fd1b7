"""The subject of a thread: the job, query, run and epoch that its log lines are about. Every log line shows it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

OWN = "tidegate"
"""The only logger of tidegate. (Filters of a logger do not see records of its children, so it has none.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a log line is about. A part that is None is unknown, or the line is about all of them (all queries)."""

    job: str | None = None
    query: str | None = None
    run: int | None = None
    epoch: int | None = None


def subject() -> Subject:
    """The job, query and epoch that log lines of this thread name now."""
    return _SUBJECT.get()


@contextmanager
def about(**parts: Any) -> Generator[None, None, None]:
    """Inside the block, set these `parts` (job, query, run, epoch) of the thread's subject. Other parts stay."""
    with about_all_of(_SUBJECT.get(), **parts):
        yield


@contextmanager
def about_all_of(other: Subject, **parts: Any) -> Generator[None, None, None]:
    """Inside the block, log lines of this thread are about the subject `other`, with these `parts` replaced.

    `other`: the subject of another thread or process. `parts`: `job`, `query`, `run`, `epoch`.
    """
    token = _SUBJECT.set(replace(other, **parts))
    try:
        yield
    finally:
        _SUBJECT.reset(token)


_NOBODY = Subject()
_SUBJECT: ContextVar[Subject] = ContextVar("tidegate-subject", default=_NOBODY)
