"""Errors that several sinks share."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.errors import Code, TidegateError


def not_one_of(option: str, words: Iterable[str], given: str, uid: str, *, instead: str = "") -> TidegateError:
    """An option of a sink has none of its words. `instead`: what may be given besides them, if anything."""
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected=f"{option} one of {', '.join(repr(word) for word in words)}{instead}",
        found=f"{option}={given!r}",
        where=f"sink {uid!r}",
    )


def unfit_for_dead_letters(expected: str, found: str, where: str) -> TidegateError:
    """Arguments of a sink or of its query that do not go together with dead letters."""
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected=expected,
        found=found,
        where=where,
        next_step="change the arguments of the sink or of job.query: see docs/dead-letters.md",
    )


def not_on_a_cluster(where: str) -> TidegateError:
    """The target is on a disk of this machine."""
    return TidegateError(
        Code.SINK_LOCAL_ONLY,
        expected="a session whose tasks run on this machine",
        found="a cluster master",
        where=where,
    )


def same_but_for_case(found: str, where: str) -> TidegateError:
    """Spark treats names that differ only in case as equal. `found`: the names and how often they occur."""
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected="column names that differ in more than case",
        found=found,
        where=where,
        next_step="rename them in select=[...]",
    )
