"""Compares every record of a word count with its input. It does not depend on how the sinks were written.

The input is a sequence of numbered lines. Each of two queries reads it in batches, one per epoch. There are three
sinks:

    lines     every line, once; from one query
    changes   for every batch and every word in it: the word and its count so far; from the other query
    table     each word and its total count; written together with `changes`

The input alone determines the expected content of each sink, record by record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class DeviationKind(Enum):
    """The kinds of errors in a record or a batch."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    WRONG_COUNT = "wrong count"
    INVENTED = "invented"  # the input does not explain it
    TORN = "torn"  # a batch is visible in part, or in one of two sinks that are written together


@dataclass(frozen=True, slots=True, order=True)
class InputLine:
    """One line of input, identified by its number."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """One row of `changes`: the count of `word` so far."""

    word: str
    count: int


@dataclass(frozen=True, slots=True)
class SinkContents:
    """The records found in the three sinks, in any order."""

    lines: Sequence[InputLine]
    changes: Sequence[Change]
    table: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Deviation:
    """One error. `batch` counts from 0; None if the record belongs to no batch. `times`: how often the record was
    found."""

    kind: DeviationKind
    sink: str
    batch: int | None
    expected: str
    found: str
    times: int = 1

    def __str__(self) -> str:
        where = "" if self.batch is None else f", batch {self.batch}"
        return f"{self.kind.value} in {self.sink}{where}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class CheckerVerdict:
    """All findings, the earliest batch first."""

    findings: tuple[Deviation, ...]

    @property
    def exact(self) -> bool:
        """True if every record is present, once, and correct."""
        return not self.findings

    def count(self, kind: DeviationKind) -> int:
        """The number of records (for TORN: of batches and sinks) with this error."""
        return sum(finding.times for finding in self.findings if finding.kind is kind)

    def counterexample(self) -> str:
        """The findings of the earliest batch that has any, the first of each kind and sink; empty when exact."""
        first: dict[tuple[DeviationKind, str], Deviation] = {}
        for finding in self.findings:
            if finding.batch == self.findings[0].batch:
                first.setdefault((finding.kind, finding.sink), finding)
        return "\n".join(str(finding) for finding in first.values())


Batches: TypeAlias = Sequence[Sequence[InputLine]]
"""The input of each epoch of a query, in order."""


def check(copied: Batches, counted: Batches, sinks: SinkContents) -> CheckerVerdict:
    """Compare the sinks with the output that the batches must have produced.

    `copied` and `counted` are the same lines, as read by the query that copies them and by the query that counts words.
    """
    history = _History(counted)
    findings = [
        *_check_lines(copied, sinks.lines),
        *_check_changes(history, sinks.changes),
        *_check_table(history, sinks.table),
        *_check_together(history, sinks),
    ]
    last = max(len(copied), len(counted))
    return CheckerVerdict(tuple(sorted(findings, key=lambda finding: last if finding.batch is None else finding.batch)))


def words_of(text: str) -> list[str]:
    """The words of a line, separated by spaces."""
    return [word for word in text.split(" ") if word]


class _History:
    """The expected counts: for each word, its batches and its count after each batch."""

    def __init__(self, batches: Batches) -> None:
        self.of_word: dict[str, dict[int, int]] = {}  # word -> count so far -> batch; counts rise
        self.of_batch: list[list[Change]] = []
        totals: Counter[str] = Counter()
        for batch, lines in enumerate(batches):
            added = Counter(word for line in lines for word in words_of(line.text))
            totals.update(added)
            self.of_batch.append([Change(word, totals[word]) for word in added])
            for word in added:
                self.of_word.setdefault(word, {})[totals[word]] = batch
        self.totals: Mapping[str, int] = totals

    def last_batch(self, word: str) -> int:
        return self.of_word[word][self.totals[word]]


# --- lines -------------------------------------------------------------------------------------------------


def _check_lines(batches: Batches, lines: Sequence[InputLine]) -> Iterator[Deviation]:
    seen = Counter(lines)
    for batch, expected in enumerate(batches):
        for line in expected:
            yield from _check_times("lines", batch, str(line), seen[line])
        if _is_torn(seen[line] for line in expected):
            yield _torn("lines", batch, sum(1 for line in expected if seen[line]), len(expected))
    for line in sorted(seen.keys() - {line for expected in batches for line in expected}):
        yield Deviation(DeviationKind.INVENTED, "lines", None, "a line of the input", str(line), seen[line])


# --- changes -----------------------------------------------------------------------------------------------


def _check_changes(history: _History, changes: Sequence[Change]) -> Iterator[Deviation]:
    seen = Counter(changes)
    found: dict[str, list[int]] = {}
    for change in seen:
        found.setdefault(change.word, []).append(change.count)
    for word, expected in history.of_word.items():
        yield from _check_word(word, expected, sorted(found.pop(word, [])), seen)
    for word, counts in sorted(found.items()):
        times = sum(seen[Change(word, count)] for count in counts)
        yield Deviation(DeviationKind.INVENTED, "changes", None, "a word of the input", repr(word), times)
    for batch, expected_changes in enumerate(history.of_batch):
        if _is_torn(seen[change] for change in expected_changes):
            there = sum(1 for change in expected_changes if seen[change])
            yield _torn("changes", batch, there, len(expected_changes))


def _check_word(word: str, expected: Mapping[int, int], found: list[int], seen: Counter[Change]) -> Iterator[Deviation]:
    """Yield the errors in the counts of one word. Correct are exactly the counts after each batch: rising, each once.

    A wrong count is reported together with a missing one next to it, as long as there is one.
    """
    missing = [count for count in expected if count not in found]
    wrong = [count for count in found if count not in expected]
    for count in found:
        if count in expected:
            yield from _check_times("changes", expected[count], f"{word!r} = {count}", seen[Change(word, count)])
    for index, count in enumerate(wrong):
        right = missing[index] if index < len(missing) else None
        batch = None if right is None else expected[right]
        wanted = _around(list(expected), right)
        yield Deviation(
            DeviationKind.WRONG_COUNT,
            "changes",
            batch,
            f"{word!r} = {wanted}",
            _around(found, count),
            seen[Change(word, count)],
        )
    for count in missing[len(wrong) :]:
        yield Deviation(DeviationKind.LOST, "changes", expected[count], f"{word!r} = {count}", "nothing")


def _around(counts: list[int], middle: int | None) -> str:
    """A short piece of a history: the count in question and those beside it."""
    at = len(counts) if middle is None else counts.index(middle)
    start, end = max(0, at - 1), at + 2
    shown = [str(count) for count in counts[start:end]]
    return ", ".join([*(["..."] if start else []), *shown, *(["..."] if end < len(counts) else [])]) or "no count"


# --- the table, and the two sinks that are written together ------------------------------------------------


def _check_table(history: _History, table: Mapping[str, int]) -> Iterator[Deviation]:
    for word, total in history.totals.items():
        found = table.get(word)
        if found is None:
            yield Deviation(DeviationKind.LOST, "table", history.last_batch(word), f"{word!r} = {total}", "nothing")
        elif found != total:
            yield Deviation(
                DeviationKind.WRONG_COUNT, "table", history.last_batch(word), f"{word!r} = {total}", str(found)
            )
    for word in sorted(table.keys() - history.totals.keys()):
        yield Deviation(DeviationKind.INVENTED, "table", None, "a word of the input", f"{word!r} = {table[word]}")


def _check_together(history: _History, sinks: SinkContents) -> Iterator[Deviation]:
    """A batch must be visible in both sinks or in neither; in the table only if no later batch is missing."""
    shown = set(sinks.changes)
    for batch, changes in enumerate(history.of_batch):
        in_changes = [
            change for change in changes if change in shown and sinks.table.get(change.word, 0) < change.count
        ]
        in_table = [
            change for change in changes if change not in shown and sinks.table.get(change.word, 0) >= change.count
        ]
        for only, there, not_there in ((in_changes, "changes", "table"), (in_table, "table", "changes")):
            if only:
                example = f"{only[0].word!r} = {only[0].count}"
                yield Deviation(
                    DeviationKind.TORN,
                    "changes and table",
                    batch,
                    f"{example} in both or in neither",
                    f"in {there}, not in {not_there}",
                )


# --- common ------------------------------------------------------------------------------------------------


def _check_times(sink: str, batch: int, record: str, times: int) -> Iterator[Deviation]:
    if times == 0:
        yield Deviation(DeviationKind.LOST, sink, batch, record, "nothing")
    elif times > 1:
        yield Deviation(DeviationKind.DUPLICATED, sink, batch, f"{record} once", f"{times} times", times - 1)


def _is_torn(times: Iterator[int]) -> bool:
    """True if the records of one batch were written unequally often."""
    return len(set(times)) > 1


def _torn(sink: str, batch: int, there: int, expected: int) -> Deviation:
    found = f"{there} of them" if there < expected else "some of them repeated"
    return Deviation(DeviationKind.TORN, sink, batch, f"all {expected} records of the batch equally often", found)
