"""Checks if the stateful operators of a program are those that computed the state in a savepoint."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from tidegate.core.fingerprints import Allowed, Comparison, Pairs, compare
from tidegate.core.records import OperatorFingerprint, SavedQuery
from tidegate.savepoints.operator_match import OperatorMatch


def compare_restored(
    uid: str,
    now: tuple[OperatorFingerprint, ...] | None,
    saved: SavedQuery,
    match: OperatorMatch | None,
    allowed: Allowed,
    where: str,
) -> Comparison:
    """Compare each operator of the program with the operator in the savepoint whose state it gets.

    `match`: pairs an operator of the program with one of the savepoint; None if all have the same number and uid. The
    caller handles operators that are new or dropped.
    """
    before = saved.done.fingerprints
    if now is None:
        return Comparison()
    if before is None:
        told = f"query {uid}: the savepoint does not say what its stateful operators computed, so they are not compared"
        return Comparison(told=(told,) if saved.operators else ())
    old, new = {each.number: each for each in before}, {each.number: each for each in now}
    numbers = {number: number for number in old} if match is None else match.places
    pairs: Pairs = [(old[each], new[after]) for each, after in numbers.items() if each in old and after in new]
    found = compare(uid, pairs, allowed, where)
    if found.record is None:
        return found
    return replace(found, record=msgspec.structs.replace(found.record, fingerprints=now, once=allowed.once))
