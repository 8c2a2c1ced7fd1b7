"""Compares every record of the outputs with the input. Knows nothing of how the sinks were written.

Where each epoch ended stands in the checkpoint, so that it is known which rows and counts each epoch must have written:
of `rows` every record once, of `sums` one count for each key that had records in the epoch. Marks that were drawn when
a row was computed tell whose rows they are: all sinks of a query must show the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tests.campaign_kafka.records import Ints, Records, key_text

WINDOW = 8
"""Every so many records of a key the state takes a new random value, which the counts show until the next one."""

_EXAMPLES = 5


class Kind(Enum):
    """What can be wrong with a record."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"  # the records of a key are not in their order, or not in one partition
    WRONG = "wrong"  # its input says something else
    INVENTED = "invented"  # no input explains it
    EPOCH = "in a wrong epoch"  # not where the checkpoint says that the epochs ended
    TORN = "torn"  # the sinks of a query show rows of two evaluations
    STATE = "not of the state"  # a count is not what the state went on with


@dataclass(frozen=True, slots=True)
class Input:
    """The input topic as it was read back: where each record stands. `partition` is -1 for one that is not there."""

    records: Records
    partition: Ints
    offset: Ints


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where the epochs of a query ended: by epoch, the offset behind its last record for each partition."""

    ends: Mapping[int, Mapping[int, int]]

    def epoch_of(self, given: Input) -> Ints:
        """For each record the epoch that has read it; -1 for one that no epoch has."""
        epochs = np.array(sorted(self.ends), np.int64)
        found = np.full(len(given.records), -1, np.int64)
        for partition in np.unique(given.partition[given.partition >= 0]).tolist():
            ends = np.array([self.ends[epoch].get(partition, 0) for epoch in epochs.tolist()], np.int64)
            mine = given.partition == partition
            index = np.searchsorted(ends, given.offset[mine], side="right")
            found[mine] = np.append(epochs, -1)[index]
        return found

    def backwards(self) -> list[int]:
        """The epochs that end before the one before them."""
        epochs = sorted(self.ends)
        return [
            later
            for earlier, later in pairwise(epochs)
            if any(self.ends[later].get(partition, 0) < end for partition, end in self.ends[earlier].items())
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a sink of `rows` shows; of a topic in the order of its partitions, where `partition` says which."""

    number: Ints
    key: Ints
    seq: Ints
    epoch: Ints
    mark: Ints
    partition: Ints | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a sink of `sums` shows: how many records of a key there were, the number of the newest one, and `kept`,
    the random value that the state took at the key's record with the newest `seq` that `WINDOW` divides."""

    key: Ints
    seen: Ints
    newest: Ints
    kept: Ints
    epoch: Ints
    mark: Ints
    partition: Ints | None = None


@dataclass(slots=True)
class Verdict:
    """How often each kind of flaw was found, and the first of each kind in each sink, in words."""

    compared: int = 0
    count: Counter[Kind] = field(default_factory=Counter[Kind])
    examples: list[str] = field(default_factory=list[str])

    def add(self, kind: Kind, sink: str, found: Sequence[str] | Ints, times: int | None = None) -> None:
        """Flaws of one kind; where only the numbers of records are given, these are their words."""
        if len(found):
            self.count[kind] += len(found) if times is None else times
            shown = [each if isinstance(each, str) else f"record {each}" for each in found[:_EXAMPLES]]
            more = f", and {len(found) - _EXAMPLES} more" if len(found) > _EXAMPLES else ""
            self.examples.append(f"{kind.value} in {sink}: {'; '.join(shown)}{more}")


def check_rows(given: Input, cuts: Cuts, sinks: Mapping[str, Rows]) -> Verdict:
    """Every record of the input once in every sink, in its order, of one evaluation, in its epoch."""
    verdict = Verdict()
    epochs = cuts.epoch_of(given)
    for sink, rows in sinks.items():
        known = _known(given, rows.number)
        verdict.compared += len(rows.number)
        verdict.add(Kind.INVENTED, sink, rows.number[~known])
        _check_times(verdict, sink, rows.number[known], np.arange(len(given.records)))
        number = rows.number[known]
        right = (rows.key[known] == given.records.keys[number]) & (rows.seq[known] == given.records.seqs[number])
        verdict.add(Kind.WRONG, sink, number[~right])
        _check_epochs(verdict, sink, number, rows.epoch[known], epochs)
        if rows.partition is not None:
            _check_order(verdict, sink, rows.key[known], number, rows.partition[known])
    _check_equal(verdict, {sink: (rows.number, [rows.epoch, rows.mark]) for sink, rows in sinks.items()})
    return verdict


def check_sums(given: Input, cuts: Cuts, sinks: Mapping[str, Sums]) -> Verdict:
    """Of every epoch one count for each of its keys in every sink: the right one, in its order, of the state."""
    verdict = Verdict()
    epochs = cuts.epoch_of(given)
    verdict.add(Kind.LOST, "the epochs of the checkpoint", np.flatnonzero(epochs < 0))
    wanted = _last_of_its_key(given, epochs)
    for sink, sums in sinks.items():
        known = _known(given, sums.newest)
        verdict.compared += len(sums.newest)
        verdict.add(Kind.INVENTED, sink, sums.newest[~known])
        newest = sums.newest[known]
        right = (sums.key[known] == given.records.keys[newest]) & (sums.seen[known] == given.records.seqs[newest] + 1)
        verdict.add(Kind.WRONG, sink, [_sum(sums, at) for at in np.flatnonzero(known)[~right].tolist()])
        _check_times(verdict, sink, newest, wanted)
        inside = ~np.isin(newest, wanted)
        verdict.add(Kind.EPOCH, sink, [f"no epoch ends behind record {each}" for each in np.unique(newest[inside])])
        _check_epochs(verdict, sink, newest[~inside], sums.epoch[known][~inside], epochs)
        _check_state(verdict, sink, sums)
        if sums.partition is not None:
            _check_order(verdict, sink, sums.key[known], sums.seen[known], sums.partition[known])
    _check_equal(verdict, {sink: (sums.newest, [sums.epoch, sums.mark, sums.kept]) for sink, sums in sinks.items()})
    return verdict


def _known(given: Input, numbers: Ints) -> npt.NDArray[np.bool_]:
    return (numbers >= 0) & (numbers < len(given.records))


def _check_times(verdict: Verdict, sink: str, numbers: Ints, wanted: Ints) -> None:
    """Each of the wanted ones once; whatever is there, once at most."""
    found, times = np.unique(numbers, return_counts=True)
    verdict.add(Kind.LOST, sink, np.setdiff1d(wanted, found))
    twice = found[times > 1]
    verdict.add(Kind.DUPLICATED, sink, twice, int((times - 1).sum()))


def _check_epochs(verdict: Verdict, sink: str, numbers: Ints, shown: Ints, epochs: Ints) -> None:
    wrong = np.flatnonzero(shown != epochs[numbers])
    texts = [f"record {numbers[at]} shows epoch {shown[at]} instead of {epochs[numbers[at]]}" for at in wrong.tolist()]
    verdict.add(Kind.EPOCH, sink, texts)


def _check_order(verdict: Verdict, sink: str, keys: Ints, along: Ints, partition: Ints) -> None:
    """The rows of a key stand in one partition, and `along` does not go back in it."""
    order = np.argsort(keys, kind="stable")
    key, where, at = keys[order], partition[order], along[order]
    same = key[1:] == key[:-1]
    wrong = np.flatnonzero(same & ((where[1:] != where[:-1]) | (at[1:] < at[:-1])))
    texts = [
        f"key {key_text(int(key[i]))}: {at[i]} (partition {where[i]}) before {at[i + 1]} (partition {where[i + 1]})"
        for i in wrong.tolist()
    ]
    verdict.add(Kind.REORDERED, sink, texts)


def _last_of_its_key(given: Input, epochs: Ints) -> Ints:
    """The records behind which no other record of their key comes in their epoch."""
    numbers = np.flatnonzero(epochs >= 0)
    order = numbers[np.lexsort((numbers, epochs[numbers], given.records.keys[numbers]))]
    key, epoch = given.records.keys[order], epochs[order]
    last = np.append((key[1:] != key[:-1]) | (epoch[1:] != epoch[:-1]), True)[: len(order)]
    return np.sort(order[last])


def _check_state(verdict: Verdict, sink: str, sums: Sums) -> None:
    """All counts of a key in one window show the same random value of the state."""
    window = (sums.seen - 1) // WINDOW
    order = np.lexsort((sums.seen, window, sums.key))
    key, frame, kept = sums.key[order], window[order], sums.kept[order]
    wrong = np.flatnonzero((key[1:] == key[:-1]) & (frame[1:] == frame[:-1]) & (kept[1:] != kept[:-1]))
    found = [f"{_sum(sums, int(order[i + 1]))} does not go on from {_sum(sums, int(order[i]))}" for i in wrong.tolist()]
    verdict.add(Kind.STATE, sink, found)


def _sum(sums: Sums, at: int) -> str:
    key = key_text(int(sums.key[at]))
    return f"(key {key}, seen {sums.seen[at]}, newest {sums.newest[at]}, epoch {sums.epoch[at]})"


def _check_equal(verdict: Verdict, sinks: Mapping[str, tuple[Ints, list[Ints]]]) -> None:
    """What two sinks show for the same record is of the same evaluation."""
    (first, (numbers, values)), *others = sinks.items()
    for sink, (theirs, their_values) in others:
        both, here, there = np.intersect1d(numbers, theirs, return_indices=True)
        differs = np.zeros(len(both), np.bool_)
        for mine, other in zip(values, their_values, strict=True):
            differs |= mine[here] != other[there]
        verdict.add(Kind.TORN, f"{first} and {sink}", both[differs])
