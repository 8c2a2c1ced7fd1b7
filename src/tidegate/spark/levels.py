"""The delivery level of every sink of a query: the sink's own level, otherwise the job's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.levels import Level
from tidegate.sinks.base import TwoPhaseSink


def level_of(sink: TwoPhaseSink, mode: Level) -> Level:
    """A sink's level in a job of this mode."""
    return sink.delivery or mode


def levels_of(sinks: Sequence[TwoPhaseSink], mode: Level) -> Mapping[str, Level]:
    """The levels of those sinks that are not exactly-once, by uid."""
    levels = {sink.uid: level_of(sink, mode) for sink in sinks}
    return {uid: level for uid, level in levels.items() if level is not Level.EXACTLY_ONCE}


def leaves_evidence(sink: TwoPhaseSink, mode: Level) -> bool:
    """True if a start can compare the target with the ledger."""
    return sink.remembers and level_of(sink, mode) is not Level.AT_LEAST_ONCE


def check_levels(sinks: Sequence[TwoPhaseSink], mode: Level, where: str) -> None:
    """Raise for every sink that does not support its level, or whose level cannot be combined with the job's.

    Exactly-once and at-least-once sinks may share a query: both replay an undecided epoch. Only the rows of an
    at-least-once sink may then be visible twice. At-most-once never replays and cannot resume: it is for a whole job
    only.
    """
    violations: list[TidegateError] = []
    for sink in sinks:
        level = level_of(sink, mode)
        at = f"{where}, sink {sink.uid}"
        if level not in sink.levels:
            can = ", ".join(each.value for each in Level if each in sink.levels)
            violations.append(_refused(f"one of {can}", level.value, at, "choose one of these for `delivery`"))
        elif level is not mode and Level.AT_MOST_ONCE in (level, mode):
            violations.append(
                _refused(
                    f"delivery {mode.value}, like the job, or none",
                    f"{level.value}: at-most-once begins again at every start, all other levels resume",
                    at,
                    "put the query into a job of its own with checkpointing_mode='at-most-once'",
                )
            )
    raise_all(violations, where)


def nothing_to_catch_up_with(where: str) -> TidegateError:
    """The error for an at-most-once job that is run with until="caught-up".

    Such a job begins at the newest input, so the run would end at once. `where`: the name of the job, for the error.
    """
    return _refused(
        'no until="caught-up": at-most-once begins at the newest input',
        'until="caught-up"',
        where,
        "let it run until it is stopped, or choose another checkpointing.mode",
    )


def _refused(expected: str, found: str, where: str, next_step: str) -> TidegateError:
    return TidegateError(Code.LEVEL_REFUSED, expected=expected, found=found, where=where, next_step=next_step)
