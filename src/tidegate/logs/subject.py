"""What a thread is about: job, query, run and epoch, which every line of the log carries."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

OWN = "tidegate"
"""The one logger of tidegate. (Filters of a logger do not see what its children log, so it has none.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whom a line of the log is about; None where that is not known, or where it is about all of them."""

    job: str | None = None
    query: str | None = None
    run: int | None = None
    epoch: int | None = None


def subject() -> Subject:
    """What this thread is about now."""
    return _SUBJECT.get()


@contextmanager
def about(**parts: Any) -> Generator[None, None, None]:
    """Inside, this thread is about these `parts` of a subject, and for the rest about what it was before."""
    with about_all_of(_SUBJECT.get(), **parts):
        yield


@contextmanager
def about_all_of(other: Subject, **parts: Any) -> Generator[None, None, None]:
    """Inside, this thread is about what another one was, perhaps in another process, but for these `parts`."""
    token = _SUBJECT.set(replace(other, **parts))
    try:
        yield
    finally:
        _SUBJECT.reset(token)


_NOBODY = Subject()
_SUBJECT: ContextVar[Subject] = ContextVar("tidegate-subject", default=_NOBODY)
