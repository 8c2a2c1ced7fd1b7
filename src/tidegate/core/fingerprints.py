"""Compares the stateful operators of a program with those that computed the state.

Spark compares the kinds of the operators and the schemas of their state. `sum(v)` and `count(v)` have the same ones, so
Spark would add counts to sums. Here the operators themselves are compared, part by part. Steps before or after an
operator (a filter, a derived column, a rename) are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import OperatorFingerprint, OperatorsAccepted

Pairs = Sequence[tuple[OperatorFingerprint | None, OperatorFingerprint | None]]
"""Pairs of an operator before and now. The first of a pair is None for a new operator, the second for a removed one."""


class FingerprintPart(Enum):
    """One part of a fingerprint: its name, the operators that have it, the compared values, and whether a difference is
    refused.
    """

    KIND = ("kind", "all", "which operator it is", True)
    MODE = ("output mode", "all", "that of the query; of a function with state its own, too", True)
    KEYS = (
        "keys",
        "aggregations, `dropDuplicates`, functions with state",
        "the keys and their order; of a window its time column, length, slide and start; of a session window its gap",
        True,
    )
    ORDER = (
        "order of keys",
        "`dropDuplicates` with more than four columns",
        "their order, where Spark keeps it: since 4.3",
        True,
    )
    AGGREGATES = (
        "aggregate functions",
        "aggregations",
        "the functions in their order, with their arguments, DISTINCT, FILTER, and how they treat nulls",
        True,
    )
    JOIN = ("join type", "joins", "inner, left outer, ...", True)
    CONDITION = ("join condition", "joins", "the equal columns in their order, and all other conditions", True)
    LIMIT = ("limit", "`limit`", "the number of rows", True)
    FUNCTION = ("function", "functions with state", "the name of the function, or of the class of the processor", True)
    STATE = (
        "state schema",
        "functions with state",
        "the columns of the state; of a processor the names, kinds and schemas of its variables",
        True,
    )
    TIME = ("time mode", "functions with state", "timeouts or timers, and by which clock", True)
    WATERMARK = ("watermark column", "all but `limit`", "the event-time columns that the operator uses", True)
    TYPES = ("column types", "all but `limit`", "the types of the columns that the operator uses", True)
    DELAY = ("watermark delay", "all with a watermark", "how long late rows are waited for", False)
    BODY = ("function body", "functions with state", "the code of the function, or of the processor", False)

    def __init__(self, label: str, operators: str, counts: str, refused: bool) -> None:
        self.label = label
        self.operators = operators
        self.counts = counts
        self.refused = refused


class Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The operators that may differ from those that computed the state. Their names: a uid, or `<query>/<number>`.

    `once`: an id of the command that allows the differences. A query accepts differences once for each id, even if its
    driver is restarted often. With an empty id, differences are accepted at each start.
    """

    operators: tuple[str, ...] = ()
    once: str = ""


NOTHING_ALLOWED = Allowed()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing a program's operators with the stored ones: errors, messages, and the record to write.

    The record is written before Spark starts. None: the newest record is equal.
    """

    errors: tuple[TidegateError, ...] = ()
    told: tuple[str, ...] = ()
    record: OperatorsAccepted | None = None


def operator_name(query: str, operator: OperatorFingerprint) -> str:
    """Its name in commands: its uid, or its query and number."""
    return operator.uid or f"{query}/{operator.number}"


def operator_summary(operator: OperatorFingerprint) -> str:
    """Its description in a few words."""
    parts = [operator.compared.get(part.label, "") for part in _SHOWN]
    return " ".join(
        [operator.compared.get(FingerprintPart.KIND.label, "operator"), *(f"({text})" for text in parts if text)]
    )


def compare_at_start(
    query: str,
    before: tuple[OperatorFingerprint, ...] | None,
    now: tuple[OperatorFingerprint, ...],
    *,
    has_state: bool,
    allowed: Allowed,
    where: str,
    at: str = "",
) -> Comparison:
    """A start without a savepoint. `before`: the fingerprints in force; None if the checkpoint has none. `has_state`:
    True if an epoch has been decided, so that state of those operators exists.
    """
    if before == now:
        return Comparison()
    if before is None:
        told = _adopted(query, now) if has_state else ()
        return Comparison(told=tuple(told), record=OperatorsAccepted(fingerprints=now, at=at))
    if not has_state:
        return Comparison(record=OperatorsAccepted(fingerprints=now, at=at))
    found = compare(query, pairs_at_start(before, now), allowed, where)
    if found.errors:
        return found
    accepted = () if found.record is None else found.record.accepted
    return Comparison(
        told=found.told,
        record=OperatorsAccepted(
            fingerprints=now, at=at, accepted=accepted, once=allowed.once if allowed.operators else ""
        ),
    )


def compare(query: str, pairs: Pairs, allowed: Allowed, where: str) -> Comparison:
    """Compare the two operators of each pair. `allowed`: the operators that may differ. `where`: the place in errors.

    The `record` of the result holds only the accepted differences, or is None without such differences.
    """
    errors: list[TidegateError] = []
    told: list[str] = []
    accepted: list[str] = []
    for before, now in pairs:
        if before is None or now is None:
            errors.append(_missing(query, before, now, where))
            continue
        name = operator_name(query, now)
        refused = list(_refused(before, now))
        if refused and (name not in allowed.operators or refused[0][0] == FingerprintPart.KIND.label):
            errors.append(_changed(name, refused, where))
        elif refused:
            accepted += [f"operator {name}: {_text(each)}" for each in refused]
        told += [f"operator {name}: {_text(each)}" for each in _differences(before.told, now.told)]
    if errors:
        return Comparison(errors=tuple(errors))
    texts = (*(f"query {query}: {text}; accepted" for text in accepted), *(f"query {query}: {text}" for text in told))
    record = OperatorsAccepted(fingerprints=(), at="", accepted=tuple(accepted)) if accepted else None
    return Comparison(told=texts, record=record)


def pairs_at_start(before: Iterable[OperatorFingerprint], now: Iterable[OperatorFingerprint]) -> Pairs:
    """Pair the operators of the last start with those of this start: by uid if both have one, otherwise by number."""
    free = {each.number: each for each in now}
    by_uid = {each.uid: each for each in free.values() if each.uid}
    pairs: list[tuple[OperatorFingerprint | None, OperatorFingerprint | None]] = []
    rest: list[OperatorFingerprint] = []
    for each in before:
        same = by_uid.get(each.uid) if each.uid else None
        if same is None:
            rest.append(each)
        else:
            pairs.append((each, free.pop(same.number)))
    pairs += [(each, free.pop(each.number, None)) for each in rest]
    return [*pairs, *((None, each) for each in free.values())]


def unknown_operators(
    allowed: Allowed, program: Mapping[str, Sequence[OperatorFingerprint]], where: str
) -> Iterator[TidegateError]:
    """An error for each name in `allowed` that no stateful operator of the program has.

    `allowed`: the operators that `--allow-changed-operator` names. `program`: the stateful operators by query.
    """
    known = [operator_name(query, each) for query, operators in program.items() for each in operators]
    for name in allowed.operators:
        if name not in known:
            yield TidegateError(
                Code.OPERATOR_CHANGED,
                expected=f"a stateful operator of the program: {', '.join(known) or 'it has none'}",
                found=name,
                where=f"--allow-changed-operator, {where}",
                next_step="name one of these operators",
            )


def without_uid(query: str, operators: Iterable[OperatorFingerprint], taken: Iterable[str]) -> Iterator[str]:
    """For each operator without a uid, the line of code that gives it one. `taken`: the uids of the job."""
    used = set(taken)
    for each in operators:
        if each.uid:
            continue
        kind = each.compared.get(FingerprintPart.KIND.label, "operator")
        wanted = f"{query[:40]}-{kind}".replace(" ", "-")[:60]
        name = next(name for name in (wanted, *(f"{wanted}-{n}" for n in range(2, 1000))) if name not in used)
        used.add(name)
        yield (
            f"query {query}: {operator_summary(each)} has no uid, so its state goes by its place in the query; "
            f'add behind it: rows = tidegate.uid("{name}", rows)'
        )


def markdown_table() -> str:
    """The table of parts, for the documents."""
    rows = [
        f"| {part.label} | {part.operators} | {part.counts} | {'refused' if part.refused else 'accepted, and said'} |"
        for part in FingerprintPart
    ]
    return "\n".join(["| part | operators | what counts | a difference is |", "|---|---|---|---|", *rows])


_SHOWN = (FingerprintPart.KEYS, FingerprintPart.AGGREGATES, FingerprintPart.JOIN, FingerprintPart.FUNCTION)
_ACCEPT = (
    "put the operator back as it was; or keep its state under the new definition: tidegate run"
    " --allow-changed-operator "
)
_EMPTY = "; or begin with empty state: tidegate run -s SAVEPOINT --offsets-only APP"


def _refused(before: OperatorFingerprint, now: OperatorFingerprint) -> Iterator[tuple[str, str, str]]:
    """A column may have another name, or another origin: one of both comes from a step before the operator. For another
    kind of operator, only the kind is reported.
    """
    for part, old, new in _differences(before.compared, now.compared):
        if before.origins.get(part, old) != now.origins.get(part, new):
            yield part, old, new
            if part == FingerprintPart.KIND.label:
                return


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The common parts with different texts: a newer release may know one part more, which then exists on one side
    only.
    """
    for part in (each.label for each in FingerprintPart):
        old, new = before.get(part), now.get(part)
        if old is not None and new is not None and old != new:
            yield part, old, new


def _text(difference: tuple[str, str, str]) -> str:
    part, old, new = difference
    return f"{part}: {old} -> {new}"


def _changed(name: str, differences: Sequence[tuple[str, str, str]], where: str) -> TidegateError:
    another_kind = differences[0][0] == FingerprintPart.KIND.label
    return TidegateError(
        Code.OPERATOR_CHANGED,
        expected=f"operator {name} as its state was computed: "
        + "; ".join(f"{part}: {old}" for part, old, _ in differences),
        found="; ".join(f"{part}: {new}" for part, _, new in differences),
        where=where,
        next_step=("put the operator back as it was" if another_kind else f"{_ACCEPT}{name} APP") + _EMPTY,
    )


def _missing(
    query: str, before: OperatorFingerprint | None, now: OperatorFingerprint | None, where: str
) -> TidegateError:
    there = before or now
    name = "" if there is None else f"operator {operator_name(query, there)}, {operator_summary(there)}"
    return TidegateError(
        Code.OPERATOR_CHANGED,
        expected=name if now is None else "no more operators than there is state of",
        found="no such operator in the query" if now is None else name,
        where=where,
        next_step="put the operators back as they were; or take a savepoint (`tidegate stop JOB -p DIR`) and start "
        "this program with it (`tidegate run -s SAVEPOINT APP`): a restore adds and removes operators that have uids",
    )


def _adopted(query: str, now: Sequence[OperatorFingerprint]) -> Iterator[str]:
    if now:
        what = ", ".join(f"{operator_name(query, each)}: {operator_summary(each)}" for each in now)
        yield (
            f"query {query}: its checkpoint does not say what its stateful operators computed; "
            f"from this start on it does: {what}"
        )
