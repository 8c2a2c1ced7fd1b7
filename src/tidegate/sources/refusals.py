"""Errors that several sources share."""

from __future__ import annotations

from tidegate.core.errors import Code, TidegateError


def other_source(expected: str, position: str, where: str) -> TidegateError:
    """The checkpoint belongs to another source. `expected`: this source in words; `position`: the stored one."""
    return TidegateError(
        Code.SOURCES_CHANGED, expected=f"a checkpoint of {expected}", found=f"one at {position!r}", where=where
    )
