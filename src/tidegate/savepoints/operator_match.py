"""Matches stateful operators of a program with those of a savepoint, before any state is moved.

Operators with a uid on both sides are matched by uid. Those without a uid in the savepoint are matched by Spark's name
of their kind and by order, if only one match is possible. Spark itself knows an operator by its number in the plan,
which changes with every operator that is added, removed or moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedQuery, StatefulOperator
from tidegate.savepoints.log_change import with_operators
from tidegate.savepoints.refusals import not_in_the_program
from tidegate.savepoints.state_change import lives_by_rows


@dataclass(frozen=True, slots=True)
class OperatorMatch:
    """`pairs`: an operator of the savepoint, and the program's operator that takes its state. `new`: operators that
    begin with empty state. `left`: operators of the savepoint without a successor. `unclear`: operators of the
    savepoint that match several of the program, or none.
    """

    pairs: tuple[tuple[StatefulOperator, StatefulOperator], ...]
    new: tuple[StatefulOperator, ...] = ()
    left: tuple[StatefulOperator, ...] = ()
    unclear: tuple[StatefulOperator, ...] = ()

    @property
    def places(self) -> Mapping[int, int]:
        """By number in the savepoint, the current number of an operator."""
        return {before.number: now.number for before, now in self.pairs}

    @property
    def numbers(self) -> Mapping[int, int]:
        """By current number, the number of an operator in the savepoint."""
        return {now.number: before.number for before, now in self.pairs}

    @property
    def changes_nothing(self) -> bool:
        """True if every operator has the same number, kind and uid as before, and none was added or removed."""
        same = [(each.number, each.name, each.uid) for each, _ in self.pairs] == [
            (each.number, each.name, each.uid) for _, each in self.pairs
        ]
        return same and not self.new and not self.left and not self.unclear

    @property
    def moves_files(self) -> bool:
        """True if Spark looks for the state of an operator at another place than the savepoint has it, or for more or
        less state.
        """
        return bool(self.new or self.left) or any(before != now for before, now in self.places.items())


def match_operators(
    saved: Sequence[StatefulOperator], program: Sequence[StatefulOperator], renamed: Mapping[str, str]
) -> OperatorMatch:
    """`renamed`: uids in the savepoint, with their current uids."""
    by_uid = {each.uid: each for each in program if each.uid}
    after = {each.number: by_uid.get(renamed.get(each.uid, each.uid)) for each in saved if each.uid}
    pairs = [(each, now) for each in saved if (now := after.get(each.number)) is not None]
    left = tuple(each for each in saved if each.uid and after[each.number] is None)
    taken = {now.number for _, now in pairs}
    free = [each for each in program if each.number not in taken]
    unnamed = [each for each in saved if not each.uid]
    ways = [way for way, _ in zip(_ways(unnamed, free), range(2), strict=False)]
    if len(ways) != 1:
        return OperatorMatch(tuple(pairs), left=left, unclear=tuple(unnamed))
    pairs += zip(unnamed, ways[0], strict=True)
    taken = {now.number for _, now in pairs}
    return OperatorMatch(
        pairs=tuple(sorted(pairs, key=lambda pair: pair[1].number)),
        new=tuple(each for each in program if each.number not in taken),
        left=left,
    )


def _ways(unnamed: Sequence[StatefulOperator], free: Sequence[StatefulOperator]) -> Iterator[list[StatefulOperator]]:
    """Each way to assign everything in `unnamed` to one in `free` of its kind, both in their order."""
    if not unnamed:
        yield []
        return
    first, *rest = unnamed
    for index, each in enumerate(free):
        if each.name == first.name:
            for way in _ways(rest, free[index + 1 :]):
                yield [each, *way]


def carried(saved: SavedQuery, match: OperatorMatch) -> SavedQuery:
    """The query in the savepoint, with its operators under their current numbers and uids, and without those that are
    left behind.
    """
    operators = tuple(msgspec.structs.replace(before, number=now.number, uid=now.uid) for before, now in match.pairs)
    rows = saved.done.state_rows
    done = msgspec.structs.replace(
        saved.done,
        commits=with_operators(saved.done.commits, match.places),
        state_rows={str(now): rows[str(before)] for before, now in match.places.items() if str(before) in rows},
        operator_uids={
            str(each.number): each.uid for each in (*(now for _, now in match.pairs), *match.new) if each.uid
        },
    )
    return msgspec.structs.replace(saved, done=done, operators=operators)


def numbered_otherwise(before: Mapping[str, str], now: Mapping[str, str], where: str) -> TidegateError | None:
    """Errors of a start without a restore. It compares the uids of the newest epoch with those of the program, by
    number.

    Spark would give the state of one operator to another, without an error if their kinds and schemas are the same. An
    operator may get a uid, or lose it.
    """
    moved = {uid for number, uid in before.items() if now.get(number, uid) != uid}
    moved |= {uid for number, uid in before.items() if uid in now.values() and now.get(number) != uid}
    if not moved:
        return None
    return _refused(
        f"operators where their state is: {_by_number(before)}",
        f"{_by_number(now)} in the program",
        where,
        "take a savepoint (`tidegate stop JOB -p DIR` works without the program), and start this program with it "
        "(`tidegate run -s`): a restore moves state by its uid, and --map OLD=NEW renames it",
    )


def _by_number(uids: Mapping[str, str]) -> str:
    return ", ".join(f"{uid} is {number}" for number, uid in sorted(uids.items())) or "none has a uid"


def told(uid: str, match: OperatorMatch) -> Iterator[str]:
    """The changes, in words."""
    for before, now in match.pairs:
        if before.uid and now.uid and before.uid != now.uid:
            yield f"query {uid}: operator {before.uid} resumes as {now.uid}"
    for each in match.left:
        yield f"query {uid}: the state of operator {_named(each)} is left behind"
    for each in match.new:
        yield f"query {uid}: operator {_named(each)} is new, and begins with empty state"


def operators_refused(match: OperatorMatch, *, may_leave: bool, where: str) -> Iterator[TidegateError]:
    """The errors of a match. `may_leave`: True if state may be left behind."""
    for before, now in match.pairs:
        if before.name != now.name:
            yield _refused(f"a {before.name} of that uid", f"a {now.name}", f"{where}, operator {now.uid}", _PUT_BACK)
    if match.unclear:
        yield _refused(
            f"one operator of the program for {_list(match.unclear)}, which has no uid in the savepoint: of its kind, "
            "in its order",
            "several, or none",
            where,
            "give each operator a uid (tidegate.uid) in the program that the savepoint is of, let it do an epoch and "
            "take another one; or resume after the rows that were read, with empty state (--offsets-only)",
        )
    if match.left and not may_leave:
        missing, new = [each.uid for each in match.left], [each.uid for each in match.new if each.uid]
        expected = f"the savepoint's operators in the query: {_list(match.left)}"
        yield not_in_the_program(expected, f"none is {', '.join(missing)}", where, missing, new)
    for each in match.new:
        if not lives_by_rows([each]):
            yield _refused(
                "new operators with empty stores that can be made beside restored state",
                f"operator {_named(each)}",
                where,
                "put it into a new query of its own; or resume with empty state (--offsets-only)",
            )


_PUT_BACK = "put the operators back as they were; or resume with empty state (--offsets-only)"


def _refused(expected: str, found: str, where: str, next_step: str) -> TidegateError:
    return TidegateError(Code.RESTORE_OPERATORS, expected=expected, found=found, where=where, next_step=next_step)


def _named(operator: StatefulOperator) -> str:
    return f"{operator.uid or operator.number} ({operator.name})"


def _list(operators: Iterable[StatefulOperator]) -> str:
    return ", ".join(map(_named, operators))
