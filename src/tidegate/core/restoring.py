"""Whether a program can go on from a savepoint, decided before anything is touched, and why not.

Only the manifest and what the program declares count here; what stands in the sinks is `restoring_sinks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.errors import Code, TidegateError
from tidegate.core.kinds import Backend
from tidegate.core.records import SavedQuery, SavepointRecord
from tidegate.core.spark_log import log_offset
from tidegate.core.state_change import StateChange, changes_told, refusals, state_change


class Restore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The savepoint that a start shall go on from: its folder.

    `claim`: the savepoint belongs to the job from now on. The job keeps its id, wherever it stands, and files are
    linked where they can be. `renamed`: uids of queries, sources and sinks in the savepoint, and what the program calls
    them. `allow_non_restored_state`: queries that the program has no more are left behind. `rewind`: an id of the
    caller's, under which the job goes back once, also where rows are visible that then come a second time.
    """

    path: str
    claim: bool = False
    renamed: dict[str, str] = {}
    allow_non_restored_state: bool = False
    rewind: str = ""


class Verdict(Enum):
    """What becomes of a restore."""

    OK = "ok"
    """The job goes on exactly as it was."""
    MIGRATE = "migrate"
    """It goes on, changed as is said."""
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class ProgramQuery:
    """A query as the program declares it. `reads_files` says of each source whether it is Spark's file source."""

    uid: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    reads_files: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is to go on. `partitions`: of keyed state, where somebody has asked for a number."""

    name: str
    queries: Sequence[ProgramQuery]
    backend: Backend
    partitions: int | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """`matched`: the saved query of each query of the program that has one. `left_behind`: the saved queries that go
    on under no uid, or under another one. `rewritten`: by query of the program, in which form its state goes on.
    `changes`, in words; `errors`: what makes it impossible."""

    matched: Mapping[str, SavedQuery]
    left_behind: tuple[str, ...]
    rewritten: Mapping[str, StateChange]
    changes: tuple[str, ...]
    errors: tuple[TidegateError, ...]

    @property
    def verdict(self) -> Verdict:
        if self.errors:
            return Verdict.IMPOSSIBLE
        return Verdict.MIGRATE if self.changes else Verdict.OK


def judge(saved: SavepointRecord, program: Program, wish: Restore) -> Judgement:
    """What the manifest and the program say to each other."""
    declared = {query.uid: query for query in program.queries}
    now = {query.done.query: wish.renamed.get(query.done.query, query.done.query) for query in saved.queries}
    matched = {now[query.done.query]: query for query in saved.queries if now[query.done.query] in declared}
    missing = [uid for uid, name in now.items() if name not in declared]
    pairs = [(declared[uid], query) for uid, query in matched.items()]
    changes = {uid: state_change(query, program.backend, program.partitions) for uid, query in matched.items()}
    rewritten = {uid: change for uid, change in changes.items() if change is not None}
    return Judgement(
        matched=matched,
        left_behind=tuple(uid for uid, name in now.items() if uid != name or name not in declared),
        rewritten=rewritten,
        changes=(
            *_uids_changed(declared, now, missing),
            *(text for pair in pairs for text in _sinks_changed(*pair, wish.renamed)),
            *(text for uid, change in rewritten.items() for text in changes_told(uid, matched[uid], change)),
        ),
        errors=(
            *_names_wrong(saved, program, wish, now),
            *_missing(saved, program, wish, missing, nothing_matches=not matched),
            *(error for pair in pairs for error in _query_errors(*pair, program, wish.renamed)),
        ),
    )


# --- the uids ----------------------------------------------------------------------------------------------


def _names_wrong(
    saved: SavepointRecord, program: Program, wish: Restore, now: Mapping[str, str]
) -> Iterator[TidegateError]:
    old = {uid for query in saved.queries for uid in (query.done.query, *query.done.sources, *query.done.sinks)}
    new = {uid for query in program.queries for uid in (query.uid, *query.sources, *query.sinks)}
    for before, after in wish.renamed.items():
        if before not in old:
            yield _unmatched(f"a uid of the savepoint in {before}={after}: one of {_list(old)}", before, program)
        elif after not in new:
            yield _unmatched(f"a uid of the program in {before}={after}: one of {_list(new)}", after, program)
    twice = {name for name in now.values() if list(now.values()).count(name) > 1}
    for name in sorted(twice):
        both = _list(uid for uid, after in now.items() if after == name)
        yield _unmatched("one query of the savepoint for each of the program", f"{both} as {name}", program)


def _missing(
    saved: SavepointRecord, program: Program, wish: Restore, missing: Sequence[str], *, nothing_matches: bool
) -> Iterator[TidegateError]:
    if missing and (nothing_matches or not wish.allow_non_restored_state):
        yield TidegateError(
            Code.RESTORE_UNMATCHED,
            expected=f"the savepoint's queries in the program: {_list(query.done.query for query in saved.queries)}",
            found=f"none of the uid {_list(missing)}; the program has {_list(query.uid for query in program.queries)}",
            where=f"job {program.name}",
            next_step="start it without a savepoint, with empty state"
            if nothing_matches and wish.allow_non_restored_state
            else "name what it is called now (--map OLD=NEW), or leave its state behind (--allow-non-restored-state)",
        )


def _uids_changed(
    declared: Mapping[str, ProgramQuery], now: Mapping[str, str], missing: Sequence[str]
) -> Iterator[str]:
    for uid, name in now.items():
        if uid in missing:
            yield f"query {uid} and its state are left behind"
        elif uid != name:
            yield f"query {uid} goes on as {name}"
    for uid in declared:
        if uid not in now.values():
            yield f"query {uid} begins anew, with empty state: the savepoint does not have it"


# --- one query ---------------------------------------------------------------------------------------------


def _sinks_changed(query: ProgramQuery, saved: SavedQuery, renamed: Mapping[str, str]) -> Iterator[str]:
    before = [renamed.get(uid, uid) for uid in saved.done.sinks]
    for uid in before:
        if uid not in query.sinks:
            yield f"query {query.uid}: sink {uid} gets no more rows"
    for uid in query.sinks:
        if uid not in before:
            yield f"query {query.uid}: sink {uid} is new, and gets rows from epoch {saved.done.epoch + 1} on"


def _query_errors(
    query: ProgramQuery, saved: SavedQuery, program: Program, renamed: Mapping[str, str]
) -> Iterator[TidegateError]:
    where = f"job {program.name}, query {query.uid}"
    before = tuple(renamed.get(uid, uid) for uid in saved.done.sources)
    if query.sources != before:
        yield _sources_changed(f"sources {', '.join(before)}, in this order", ", ".join(query.sources), where)
    else:
        yield from _kinds_changed(query, saved, where)
    change = state_change(saved, program.backend, program.partitions)
    yield from refusals(saved, program.backend, program.partitions, change, where)
    if saved.watermark_ms >= END_OF_TIME_MS:
        yield TidegateError(
            Code.JOB_DRAINED,
            expected="a savepoint that a job can go on from",
            found="one of a drained query: its watermark is at the end of time, and every new row too late",
            where=where,
            next_step="take a savepoint before the drain; or start the job under another name, where it begins anew",
        )


def _kinds_changed(query: ProgramQuery, saved: SavedQuery, where: str) -> Iterator[TidegateError]:
    """Spark would take the position of another kind of source for one of its own, or fail in the first epoch."""
    for uid, before, files in zip(query.sources, saved.done.sources, query.reads_files, strict=True):
        position = saved.ends[before]
        if position is not None and files != (log_offset(position) is not None):
            now = "files" if files else "something else than files"
            yield _sources_changed(f"source {uid} to be what it was, at {position}", f"one that reads {now}", where)


def _sources_changed(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.SOURCES_CHANGED,
        expected=expected,
        found=found,
        where=where,
        next_step="put the sources back as they were; where only a uid is another one: --map OLD=NEW",
    )


def _unmatched(expected: str, found: str, program: Program) -> TidegateError:
    return TidegateError(
        Code.RESTORE_UNMATCHED,
        expected=expected,
        found=found,
        where=f"--map, job {program.name}",
        next_step="see `tidegate savepoint inspect PATH` for the uids of the savepoint",
    )


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
