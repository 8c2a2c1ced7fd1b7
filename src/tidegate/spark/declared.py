"""The declarations of a program: the queries of a job, and the names in it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import msgspec
from pyspark.sql import DataFrame

from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.names import NAME_RULE, is_name, shown
from tidegate.sinks.base import TwoPhaseSink
from tidegate.spark.dead_letters import DeadLetters, checked_dead_letters
from tidegate.spark.levels import check_levels
from tidegate.spark.operator_uids import uids_given
from tidegate.spark.sources.streams import SourceRegistry

_MODES = ("append", "update", "complete")


class DeclaredQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query as the program declared it. `operators`: the uids of its stateful operators. The sink of `dead_letters`
    is the last of `sinks`.
    """

    uid: str
    rows: DataFrame
    mode: str
    sources: tuple[str, ...]
    sinks: tuple[TwoPhaseSink, ...]
    operators: tuple[str, ...]
    dead_letters: DeadLetters | None = None


@dataclass(frozen=True, slots=True)
class QueryArguments:
    """The arguments of `Job.query`."""

    uid: str
    rows: DataFrame
    mode: str
    sinks: Sequence[TwoPhaseSink]
    dead_letters: TwoPhaseSink | None
    max_dead: float | None


def declare_query(
    given: QueryArguments, sources: SourceRegistry, where: str, *, level: Level, taken: Set[str], operators: Set[str]
) -> DeclaredQuery:
    """The query, after all checks. `level`: the level of the job. `taken`: the uids of its sources, queries and sinks.
    `operators`: the uids of its stateful operators, which several queries may share.
    """
    dead = checked_dead_letters(given.dead_letters, given.max_dead, given.rows, given.sinks, where)
    sinks = (*given.sinks, *(() if given.dead_letters is None else (given.dead_letters,)))
    if not sinks:
        raise program_error(Code.JOB_EMPTY, "at least one sink", "none", where)
    known = {*taken}
    for name, what in [(given.uid, "the query"), *((sink.uid, "a sink") for sink in sinks)]:
        known.add(checked_uid(name, f"{where}, {what}", known | operators))
    if given.mode not in _MODES:
        raise program_error(Code.OUTPUT_MODE, f"one of {', '.join(_MODES)}", repr(given.mode), where)
    read = sources.uids_of(given.rows, where)
    own: set[str] = set()
    for name in uids_given(given.rows):
        own.add(checked_uid(name, f"{where}, an operator", known | own))
    check_levels(sinks, level, where)
    return DeclaredQuery(
        uid=given.uid,
        rows=given.rows,
        mode=given.mode,
        sources=read,
        sinks=sinks,
        operators=tuple(sorted(own)),
        dead_letters=dead,
    )


def checked_uid(uid: str, where: str, taken: Set[str]) -> str:
    """The uid. Raises UID_INVALID for an invalid name, UID_DUPLICATE for one in `taken`."""
    if not isinstance(uid, str) or not is_name(uid):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = shown(uid) if isinstance(uid, str) else repr(uid)  # pyright: ignore[reportUnnecessaryIsInstance]
        raise program_error(Code.UID_INVALID, NAME_RULE, found, where)
    if uid in taken:
        raise program_error(Code.UID_DUPLICATE, "a uid of its own", repr(uid), where)
    return uid


def checked_name(name: str) -> str:
    """The name of the job, which must not be a uid in it. Raises UID_INVALID."""
    try:
        return checked_uid(name, "", set())
    except TidegateError as error:
        raise TidegateError(
            Code.UID_INVALID,
            expected=f"the name of the job: {error.expected}",
            found=error.found,
            where=f"Job({error.found}, ...)",
            next_step="give the job such a name",
        ) from None


def program_error(code: Code, expected: str, found: str, where: str) -> TidegateError:
    """The error for a mistake in the program: only a change of the program corrects it."""
    return TidegateError(code, expected=expected, found=found, where=where, next_step=_NEXT_STEPS[code])


_NEXT_STEPS = {
    Code.UID_INVALID: "use letters, digits, `-`, `_` and `.` alone",
    Code.UID_DUPLICATE: "give each source, query, sink and operator of the job a uid that no other one has",
    Code.OUTPUT_MODE: "give mode= one of them",
    Code.JOB_EMPTY: "declare it with job.query(uid, rows, sinks=[...])",
    Code.OPTION_UNKNOWN: 'leave until= out, or give until="caught-up"',
}
