"""Compares every record of the sinks with the input. Knows nothing of how the sinks were written.

One file of input is one epoch of each query; a word comes at most once in a file. From that follows which rows each
sink must hold. The random values tell whose rows they are: all sinks of a query must show the same ones, and those
of `sums` must be the values that the state went on with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from tidegate.core.levels import Level


class Kind(Enum):
    """What can be wrong with a record, or with an epoch."""

    LOST = "lost"
    REPEATED = "repeated"
    WRONG = "wrong"  # its input says another value
    INVENTED = "invented"  # no input explains it
    TORN = "torn"  # an epoch is there in part, or in one of two sinks that are written together
    STATE = "state"  # a published row is not what the state went on with


FORBIDDEN: Mapping[Level, frozenset[Kind]] = {
    Level.EXACTLY_ONCE: frozenset(Kind),
    Level.AT_LEAST_ONCE: frozenset({Kind.LOST, Kind.WRONG, Kind.INVENTED}),
    Level.AT_MOST_ONCE: frozenset({Kind.REPEATED, Kind.WRONG, Kind.INVENTED}),
}
"""What must not be found, by the delivery level."""


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of the input."""

    number: int
    word: str | None
    value: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row of `rows`."""

    number: int
    word: str | None
    value: int
    lucky: float


@dataclass(frozen=True, slots=True)
class Sum:
    """One row of `sums`: a word after one of its input rows."""

    word: str
    seen: int
    total: int
    chain: int
    last: int
    lucky: float


@dataclass(frozen=True, slots=True)
class Outputs:
    """What was found, by sink and in any order. `newest`: in sinks with a key, which keep the last row of each word."""

    rows: Mapping[str, Sequence[Row]]
    sums: Mapping[str, Sequence[Sum]]
    newest: Mapping[str, Sequence[Sum]] = field(default_factory=dict[str, Sequence[Sum]])

    @property
    def records(self) -> int:
        return sum(len(found) for found in [*self.rows.values(), *self.sums.values(), *self.newest.values()])


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; `epoch` where it belongs to one."""

    kind: Kind
    sink: str
    epoch: int | None
    text: str
    times: int = 1

    def __str__(self) -> str:
        where = "" if self.epoch is None else f", epoch {self.epoch}"
        return f"{self.kind.value} in {self.sink}{where}: {self.text}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All findings that the level is judged by."""

    level: Level
    findings: tuple[Finding, ...]

    def count(self, kind: Kind) -> int:
        return sum(finding.times for finding in self.findings if finding.kind is kind)

    @property
    def broken(self) -> list[Finding]:
        """The findings that the level forbids, the earliest epoch first."""
        forbidden = [finding for finding in self.findings if finding.kind in FORBIDDEN[self.level]]
        return sorted(forbidden, key=lambda finding: -1 if finding.epoch is None else finding.epoch)


def check(files: Sequence[Sequence[InputRow]], outputs: Outputs, level: Level = Level.EXACTLY_ONCE) -> Verdict:
    """Compare the sinks with what the files, one epoch each, must have left there.

    At most once begins again with empty state after a failure, so only `rows` can be compared then. A row that a
    weaker level shows of an attempt that failed is not the state's; whose it is can be judged for exactly-once only.
    """
    findings = [found for sink, rows in outputs.rows.items() for found in _check_rows(files, sink, rows)]
    if level is not Level.AT_MOST_ONCE:
        findings += [found for sink, sums in outputs.sums.items() for found in _check_sums(files, sink, sums)]
    if level is Level.EXACTLY_ONCE:
        findings += [found for sink, sums in outputs.sums.items() for found in _check_chain(sink, sums)]
        findings += [*_check_equal(outputs.rows), *_check_equal(outputs.sums)]
        findings += [found for sink, sums in outputs.newest.items() for found in _check_newest(outputs, sink, sums)]
    return Verdict(level, tuple(findings))


def _check_rows(files: Sequence[Sequence[InputRow]], sink: str, rows: Sequence[Row]) -> Iterator[Finding]:
    epochs = [[row.number for row in file] for file in files]
    yield from _check_keys(sink, epochs, Counter(row.number for row in rows))
    expected = {row.number: (row.word, row.value) for file in files for row in file}
    for row in rows:
        if expected.get(row.number, (row.word, row.value)) != (row.word, row.value):
            yield Finding(Kind.WRONG, sink, None, f"{row}, and not {expected[row.number]}")


def _check_sums(files: Sequence[Sequence[InputRow]], sink: str, sums: Sequence[Sum]) -> Iterator[Finding]:
    seen: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    expected: dict[tuple[str, int], int] = {}
    epochs: list[list[tuple[str, int]]] = []
    for file in files:
        counted = [(row.word, row.value) for row in file if row.word is not None]
        seen.update(word for word, _ in counted)
        for word, value in counted:
            totals[word] += value
            expected[word, seen[word]] = totals[word]
        epochs.append([(word, seen[word]) for word, _ in counted])
    yield from _check_keys(sink, epochs, Counter((each.word, each.seen) for each in sums))
    for each in sums:
        if expected.get((each.word, each.seen), each.total) != each.total:
            yield Finding(Kind.WRONG, sink, None, f"{each}, and not a total of {expected[each.word, each.seen]}")


def _check_keys(sink: str, epochs: Sequence[Sequence[Hashable]], found: Counter[Hashable]) -> Iterator[Finding]:
    """Every key of every epoch once, and nothing else; an epoch that is not as a whole is torn."""
    for epoch, keys in enumerate(epochs):
        times = [found.pop(key, 0) for key in keys]
        for key, there in zip(keys, times, strict=True):
            if there == 0:
                yield Finding(Kind.LOST, sink, epoch, str(key))
            elif there > 1:
                yield Finding(Kind.REPEATED, sink, epoch, f"{key} is there {there} times", there - 1)
        if len(set(times)) > 1:
            yield Finding(Kind.TORN, sink, epoch, f"its {len(keys)} rows are there {times} times")
    for key, times in found.items():
        yield Finding(Kind.INVENTED, sink, None, str(key), times)


def _check_chain(sink: str, sums: Sequence[Sum]) -> Iterator[Finding]:
    """From one row of a word to the next, `chain` grows by the `last` of the second."""
    by_word: dict[str, list[Sum]] = {}
    for each in sorted(sums, key=lambda each: each.seen):
        by_word.setdefault(each.word, []).append(each)
    for found in by_word.values():
        if found[0].seen == 1 and found[0].chain != found[0].last:
            yield Finding(Kind.STATE, sink, None, f"{found[0]} is not the first of its chain")
        for before, after in pairwise(found):
            if after.seen == before.seen + 1 and before.chain + after.last != after.chain:
                yield Finding(Kind.STATE, sink, None, f"{after} does not go on from {before}")


def _check_equal(sinks: Mapping[str, Sequence[Hashable]]) -> Iterator[Finding]:
    """All sinks of a query show the same rows, random values included."""
    (first, rows), *others = sinks.items()
    counted = Counter(rows)
    for sink, found in others:
        theirs = Counter(found)
        for row, times in [*(counted - theirs).items(), *(theirs - counted).items()]:
            yield Finding(Kind.TORN, f"{first} and {sink}", None, f"{row} is in one of them only", times)


def _check_newest(outputs: Outputs, sink: str, found: Sequence[Sum]) -> Iterator[Finding]:
    """A sink with a key shows the last row of each word that another sink of the query shows."""
    first, sums = next(iter(outputs.sums.items()))
    newest = {each.word: each for each in sorted(sums, key=lambda each: each.seen)}
    there = Counter(each.word for each in found)
    for each in found:
        if each != newest.get(each.word):
            yield Finding(Kind.TORN, f"{sink} and {first}", None, f"{each}, and not {newest.get(each.word)}")
    for word in newest:
        if there[word] != 1:
            kind = Kind.REPEATED if there[word] else Kind.LOST
            yield Finding(kind, sink, None, f"{word} is there {there[word]} times")
