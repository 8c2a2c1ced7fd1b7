"""Judges whether a program can resume from a savepoint, before anything is changed.

Only the manifest and the declarations of the program count here; `restoring_sinks` judges the sinks.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import OperatorsAccepted, SavedQuery, SavepointRecord, StatefulOperator
from tidegate.savepoints.operator_match import (
    OperatorMatch,
    carried,
    match_operators,
    operators_refused,
    told,
)
from tidegate.savepoints.refusals import not_in_the_program
from tidegate.savepoints.restoring import Restore, Scope
from tidegate.savepoints.restoring_operators import compare_restored
from tidegate.savepoints.restoring_program import Program, ProgramQuery
from tidegate.savepoints.restoring_sources import query_errors, sinks_told, sources_told
from tidegate.savepoints.state_change import StateChange, changes_told, state_change


class RestoreVerdict(Enum):
    """The result of a judgement."""

    OK = "ok"
    """The job resumes unchanged."""
    MIGRATE = "migrate"
    """The job resumes with the listed changes."""
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class Judgement:
    """`matched`: for each query of the program, the saved query, with its operators under their current numbers.
    `operators`: by query of the program, the operators that have new numbers or uids, are new, or are left behind.
    `emptied`: the queries that resume with empty state. `left_behind`: the saved queries that do not resume under their
    uid. `rewritten`: by query of the program, the new form of its state. `accepted`: by query, its operators that
    differ from those of the state, and may. `changed`: the queries with an operator that must not differ. `changes`:
    messages. `errors`: the reasons why a restore is impossible.
    """

    matched: Mapping[str, SavedQuery]
    left_behind: tuple[str, ...]
    rewritten: Mapping[str, StateChange]
    changes: tuple[str, ...]
    errors: tuple[TidegateError, ...]
    emptied: frozenset[str] = frozenset()
    operators: Mapping[str, OperatorMatch] = field(default_factory=dict[str, OperatorMatch])
    accepted: Mapping[str, OperatorsAccepted] = field(default_factory=dict[str, OperatorsAccepted])
    changed: frozenset[str] = frozenset()

    @property
    def verdict(self) -> RestoreVerdict:
        if self.errors:
            return RestoreVerdict.IMPOSSIBLE
        return RestoreVerdict.MIGRATE if self.changes else RestoreVerdict.OK


def judge(saved: SavepointRecord, program: Program, wish: Restore) -> Judgement:
    """Compares the manifest with the program."""
    declared = {query.uid: query for query in program.queries}
    now = {query.done.query: wish.renamed.get(query.done.query, query.done.query) for query in saved.queries}
    matched = {now[query.done.query]: query for query in saved.queries if now[query.done.query] in declared}
    missing = [uid for uid, name in now.items() if name not in declared]
    emptied = {uid for uid, query in matched.items() if _begins_empty(declared[uid], query, wish)}
    matches = {
        uid: match for uid, query in matched.items() if (match := _match(declared[uid], query, wish)) is not None
    }
    before = matched
    matched = {uid: carried(query, matches[uid]) if uid in matches else query for uid, query in before.items()}
    pairs = [(declared[uid], query) for uid, query in matched.items()]
    rewritten = {uid: change for uid, change in _rewritten(matched, program).items() if uid not in emptied}
    where = {uid: f"job {program.name}, query {uid}" for uid in matched}
    compared = {
        uid: compare_restored(
            uid, declared[uid].fingerprints, saved_query, matches.get(uid), program.allowed, where[uid]
        )
        for uid, saved_query in before.items()
        if uid not in emptied
    }
    return Judgement(
        matched=matched,
        operators=matches,
        emptied=frozenset(emptied),
        left_behind=tuple(uid for uid, name in now.items() if uid != name or name not in declared),
        rewritten=rewritten,
        accepted={uid: each.record for uid, each in compared.items() if each.record is not None},
        changed=frozenset(uid for uid, each in compared.items() if each.errors),
        changes=(
            *_uids_changed(declared, now, missing),
            *_emptied(emptied, matched, wish),
            *(text for uid, match in matches.items() for text in told(uid, match)),
            *(text for each in compared.values() for text in each.told),
            *(text for pair in pairs for text in sources_told(*pair, wish)),
            *(text for pair in pairs for text in sinks_told(*pair, wish)),
            *(text for uid, change in rewritten.items() for text in changes_told(uid, matched[uid], change)),
        ),
        errors=(
            *_names_wrong(saved, program, wish, now),
            *_missing(saved, program, wish, now, missing),
            *(
                error
                for uid, match in matches.items()
                for error in operators_refused(
                    match, may_leave=wish.allows_to_leave(before[uid].done.query), where=where[uid]
                )
            ),
            *(error for each in compared.values() for error in each.errors),
            *(error for pair in pairs for error in query_errors(*pair, program, wish)),
        ),
    )


# --- the uids ----------------------------------------------------------------------------------------------


def _names_wrong(
    saved: SavepointRecord, program: Program, wish: Restore, now: Mapping[str, str]
) -> Iterator[TidegateError]:
    old = {
        uid
        for query in saved.queries
        for uid in (query.done.query, *query.done.sources, *query.done.sinks, *_uids(query.operators))
    }
    new = {
        uid for query in program.queries for uid in (query.uid, *query.sources, *query.sinks, *_uids(query.operators))
    }
    for before, after in wish.renamed.items():
        if before not in old:
            yield _unmatched(f"a uid of the savepoint in {before}={after}: one of {_list(old)}", before, program)
        elif after not in new:
            yield _unmatched(
                f"a uid of the program in {before}={after}: one of {_list(new)}",
                after,
                program,
                next_step=f"name one of the program's uids after the equals sign: --map {before}=NEW",
            )
    queries = [query.done.query for query in saved.queries]
    for uid in (uid for uid in wish.allow_non_restored_of if uid not in queries):
        yield _unmatched(
            f"a query of the savepoint to leave behind: one of {_list(queries)}",
            uid,
            program,
            "--allow-non-restored-state-of",
        )
    yield from _as_one("query", now, program)
    declared = {query.uid for query in program.queries}
    for done in (query.done for query in saved.queries if now[query.done.query] in declared):
        for kind, uids in (
            ("source", done.sources),
            ("sink", done.sinks),
            ("operator", tuple(done.operator_uids.values())),
        ):
            yield from _as_one(kind, {uid: wish.renamed.get(uid, uid) for uid in uids}, program)


def _as_one(kind: str, now: Mapping[str, str], program: Program) -> Iterator[TidegateError]:
    """Two saved ones that resume under one uid: one would be lost without a message."""
    names = list(now.values())
    for name in sorted({name for name in names if names.count(name) > 1}):
        both = _list(uid for uid, after in now.items() if after == name)
        yield _unmatched(f"one {kind} of the savepoint for each of the program", f"{both} as {name}", program)


def _missing(
    saved: SavepointRecord, program: Program, wish: Restore, now: Mapping[str, str], missing: Sequence[str]
) -> Iterator[TidegateError]:
    nothing_matches = len(missing) == len(now)
    new = [query.uid for query in program.queries if query.uid not in now.values()]
    kept = [query.done.query for query in saved.queries if not wish.allows_to_leave(query.done.query)]
    if missing and (nothing_matches or set(missing) & set(kept)):
        expected = f"the savepoint's queries in the program: {_list(query.done.query for query in saved.queries)}"
        found = f"none is {_list(missing)}: the program has {_list(query.uid for query in program.queries)}"
        where = f"job {program.name}"
        if set(missing) & set(kept):
            yield not_in_the_program(expected, found, where, missing, new)
        else:
            yield TidegateError(
                Code.RESTORE_UNMATCHED,
                expected=expected,
                found=found,
                where=where,
                next_step="start it without a savepoint, with empty state",
            )


def _uids_changed(
    declared: Mapping[str, ProgramQuery], now: Mapping[str, str], missing: Sequence[str]
) -> Iterator[str]:
    for uid, name in now.items():
        if uid in missing:
            yield f"query {uid} and its state are left behind"
        elif uid != name:
            yield f"query {uid} resumes as {name}"
    for uid in declared:
        if uid not in now.values():
            yield f"query {uid} begins again, with empty state: it is not in the savepoint"


# --- one query ---------------------------------------------------------------------------------------------


def _begins_empty(query: ProgramQuery, saved: SavedQuery, wish: Restore) -> bool:
    """Also queries that had no state, and have some now."""
    return wish.scope is Scope.OFFSETS_ONLY or bool(query.operators and not saved.operators)


def _match(query: ProgramQuery, saved: SavedQuery, wish: Restore) -> OperatorMatch | None:
    """For each operator of the program, the operator in the savepoint whose state it gets; None if all are unchanged.

    Also None if no operator has a uid and they do not match: Spark's own comparison, by number and kind, then gives the
    reason.
    """
    if _begins_empty(query, saved, wish):
        return None
    found = match_operators(saved.operators, query.operators, wish.renamed)
    if found.changes_nothing:
        return None
    has_uids = _uids(saved.operators) or _uids(query.operators)
    return found if has_uids or not found.unclear else None


def _uids(operators: Iterable[StatefulOperator]) -> list[str]:
    return [each.uid for each in operators if each.uid]


def _rewritten(matched: Mapping[str, SavedQuery], program: Program) -> Mapping[str, StateChange]:
    changes = {uid: state_change(query, program.backend, program.partitions) for uid, query in matched.items()}
    return {uid: change for uid, change in changes.items() if change is not None}


def _emptied(emptied: Container[str], matched: Mapping[str, SavedQuery], wish: Restore) -> Iterator[str]:
    for uid, saved in matched.items():
        if uid not in emptied:
            continue
        if wish.scope is not Scope.OFFSETS_ONLY:
            yield f"query {uid} has stateful operators now, and they begin with empty state"
            continue
        if saved.operators:
            yield f"query {uid} resumes with empty state: its open groups and timers are given up"
        yield f"query {uid} counts its epochs from 1 again"


def _unmatched(
    expected: str,
    found: str,
    program: Program,
    option: str = "--map",
    next_step: str = "see `tidegate savepoint inspect PATH` for the uids of the savepoint",
) -> TidegateError:
    return TidegateError(
        Code.RESTORE_UNMATCHED,
        expected=expected,
        found=found,
        where=f"{option}, job {program.name}",
        next_step=next_step,
    )


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
