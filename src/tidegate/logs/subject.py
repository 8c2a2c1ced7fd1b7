"""The subject of a thread: job, query, run and epoch. Every log line carries it."""

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
    """The subject of a log line. None: unknown, or all of them."""

    job: str | None = None
    query: str | None = None
    run: int | None = None
    epoch: int | None = None


def subject() -> Subject:
    """The job, query and epoch that log lines of this thread name now."""
    return _SUBJECT.get()


@contextmanager
def about(**parts: Any) -> Generator[None, None, None]:
    """Set these `parts` of the thread's subject inside the block; the other parts stay."""
    with about_all_of(_SUBJECT.get(), **parts):
        yield


@contextmanager
def about_all_of(other: Subject, **parts: Any) -> Generator[None, None, None]:
    """Use the subject of another thread or process inside the block, with these `parts` replaced."""
    token = _SUBJECT.set(replace(other, **parts))
    try:
        yield
    finally:
        _SUBJECT.reset(token)


_NOBODY = Subject()
_SUBJECT: ContextVar[Subject] = ContextVar("tidegate-subject", default=_NOBODY)
