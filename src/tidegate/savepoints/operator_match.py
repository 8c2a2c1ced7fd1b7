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
from tidegate.savepoints.state_change import lives_by_rows


@dataclass(frozen=True, slots=True)
class OperatorMatch:
    """`pairs`: an operator of the savepoint, and the program's operator that takes its state. `new`: operators that
    begin with empty state. `left`: operators whose state is left behind. `unclear`: operators of the savepoint that fit
    several of the program, or none."""

    pairs: tuple[tuple[StatefulOperator, StatefulOperator], ...]
    new: tuple[StatefulOperator, ...] = ()
    left: tuple[StatefulOperator, ...] = ()
    unclear: tuple[StatefulOperator, ...] = ()

    @property
    def places(self) -> Mapping[int, int]:
        """By the number that an operator has in the savepoint, the one that it has now."""
        return {before.number: now.number for before, now in self.pairs}

    @property
    def numbers(self) -> Mapping[int, int]:
        """By the number that an operator has now, the one that it has in the savepoint."""
        return {now.number: before.number for before, now in self.pairs}

    @property
    def changes_nothing(self) -> bool:
        """Whether every operator has the number, the kind and the uid that it had, and none has come or gone."""
        same = [(each.number, each.name, each.uid) for each, _ in self.pairs] == [
            (each.number, each.name, each.uid) for _, each in self.pairs
        ]
        return same and not self.new and not self.left and not self.unclear

    @property
    def moves_files(self) -> bool:
        """Whether Spark looks for the state of an operator elsewhere than the savepoint has it, or for more or less."""
        return bool(self.new or self.left) or any(before != now for before, now in self.places.items())


def match_operators(
    saved: Sequence[StatefulOperator], program: Sequence[StatefulOperator], renamed: Mapping[str, str]
) -> OperatorMatch:
    """`renamed`: uids in the savepoint and those that they have now."""
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
    """Each way to give everything in `unnamed` one in `free` of its kind, both in their order."""
    if not unnamed:
        yield []
        return
    first, *rest = unnamed
    for index, each in enumerate(free):
        if each.name == first.name:
            for way in _ways(rest, free[index + 1 :]):
                yield [each, *way]


def carried(saved: SavedQuery, match: OperatorMatch) -> SavedQuery:
    """What the savepoint has of the query, with its operators under the numbers and uids that they have now, and
    without those that are left behind."""
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
    """Errors of a start without a restore, by the uids of the newest epoch and of the program, by number:
    Spark would give the state of one operator to another, and says nothing where their kinds and schemas are the same.
    An operator may get a uid, or lose it."""
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
    """What changes, in words."""
    for before, now in match.pairs:
        if before.uid and now.uid and before.uid != now.uid:
            yield f"query {uid}: operator {before.uid} goes on as {now.uid}"
    for each in match.left:
        yield f"query {uid}: the state of operator {_named(each)} is left behind"
    for each in match.new:
        yield f"query {uid}: operator {_named(each)} is new, and begins with empty state"


def operators_refused(match: OperatorMatch, *, may_leave: bool, where: str) -> Iterator[TidegateError]:
    """What stands against it. `may_leave`: whether state may be left behind."""
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
            "take another one; or go on behind the rows that were read, with empty state (--offsets-only)",
        )
    if match.left and not may_leave:
        missing, new = [each.uid for each in match.left], [each.uid for each in match.new if each.uid]
        yield TidegateError(
            Code.RESTORE_UNMATCHED,
            expected=f"the savepoint's operators in the query: {_list(match.left)}",
            found=f"none is {', '.join(missing)}",
            where=where,
            next_step=f"name what it is called now ({map_option(missing, new)}), or leave its state behind "
            "(--allow-non-restored-state)",
        )
    for each in match.new:
        if not lives_by_rows([each]):
            yield _refused(
                "new operators whose empty stores can be made beside state that goes on",
                f"operator {_named(each)}",
                where,
                "put it into a query of its own, which begins anew; or go on with empty state (--offsets-only)",
            )


def map_option(missing: Sequence[str], new: Sequence[str]) -> str:
    """The whole option, where one uid is missing and one is new; else the reader has to know which is which."""
    return f"--map {missing[0]}={new[0]}" if len(missing) == len(new) == 1 else "--map OLD=NEW"


_PUT_BACK = "put the operators back as they were; or go on with empty state (--offsets-only)"


def _refused(expected: str, found: str, where: str, next_step: str) -> TidegateError:
    return TidegateError(Code.RESTORE_OPERATORS, expected=expected, found=found, where=where, next_step=next_step)


def _named(operator: StatefulOperator) -> str:
    return f"{operator.uid or operator.number} ({operator.name})"


def _list(operators: Iterable[StatefulOperator]) -> str:
    return ", ".join(map(_named, operators))
