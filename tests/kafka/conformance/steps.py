"""Sequences of operations, drawn at random: what the product does, and what must do no harm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hypothesis import note
from hypothesis import strategies as st

from tests.kafka.conformance.both import ALL, SHORT_MS, Both, Identity

_LETTERS = "abc"
_LEAST, _MOST = 12, 28
_REST = "rest"
"""Does nothing: what a step becomes that a failing sequence can do without."""
_ONE_IN = 7


class Step(NamedTuple):
    """`which`: of the identities until then, the newest being 0, or of the ids. Stale ones stay in use."""

    what: str
    which: int
    partition: int


def sequences() -> st.SearchStrategy[list[Step]]:
    """Those that wait for a transaction to time out do so once: it takes more than a second."""
    step = st.builds(Step, st.sampled_from(_DRAWN), st.integers(0, 5), st.sampled_from(ALL))
    steps = st.lists(step, min_size=_LEAST, max_size=_MOST)
    waits = st.builds(Step, st.just("leave open"), st.integers(0, 5), st.sampled_from(ALL))
    with_wait = st.builds(lambda before, wait, after: [*before, wait, *after], steps, waits, steps)
    return st.integers(1, _ONE_IN).flatmap(lambda drawn: with_wait if drawn == _ONE_IN else steps)


def run(both: Both, steps: Sequence[Step]) -> None:
    """Compares after each step how both stand, and in the end what they show."""
    done = [step for step in steps if step.what != _REST]
    note("\n".join(f"{step.what} ({step.which}, {step.partition})" for step in done))
    try:
        player = _Player(both)
        for step in done:
            _ACTIONS[step.what](player, step)
            both.compare()
        both.close()
    except BaseException:
        both.abandon()
        raise


class _Player:
    def __init__(self, both: Both) -> None:
        self._both = both
        self._identities = [both.init("a", by_client=True)]

    def open(self, step: Step) -> None:
        self._identities.append(self._both.init(_letter(step), by_client=step.partition == 0))

    def write(self, step: Step) -> None:
        self._both.write(self._one(step), step.partition)

    def prepare(self, step: Step) -> None:
        for partition in {0, step.partition}:
            self._both.write(self._one(step), partition)
        self._both.prove(self._one(step))

    def prove(self, step: Step) -> None:
        self._both.prove(self._one(step))

    def commit(self, step: Step) -> None:
        self._both.commit(self._one(step))

    def commit_with_the_producer_of_another(self, step: Step) -> None:
        self._both.commit(self._both.of_another(self._one(step), self._identities[step.partition % self._count]))

    def commit_under_an_unknown_id(self, step: Step) -> None:
        self._both.commit(self._both.unknown(self._one(step)))

    def write_late(self, step: Step) -> None:
        identity = self._one(step)
        self._both.write(identity, step.partition, late=self._both.is_stale(identity))

    def prove_late(self, step: Step) -> None:
        identity = self._one(step)
        if self._both.may_prove_late(identity):
            self._both.prove(identity, late=self._both.is_stale(identity))

    def abort_by_hand(self, step: Step) -> None:
        if found := self._both.open_identities():
            self._both.abort_by_hand(found[step.which % len(found)])

    def delete_evidence(self, _step: Step) -> None:
        if self._both.has_settled_evidence():
            self._both.delete_evidence()

    def read(self, _step: Step) -> None:
        self._both.compare_visible()

    def leave_open(self, step: Step) -> None:
        """Until the coordinator ends it, which fences it too. What else is open is fenced before."""
        for identity in self._both.open_identities():
            self._identities.append(self._both.init(identity.name[-1]))
        identity = self._both.init(_letter(step), timeout_ms=SHORT_MS)
        self._identities.append(identity)
        self._both.write(identity, step.partition)
        if step.partition:
            self._both.prove(identity)
        self._both.time_out(identity)

    @property
    def _count(self) -> int:
        return len(self._identities)

    def _one(self, step: Step) -> Identity:
        return self._identities[-1 - step.which % self._count]


def _letter(step: Step) -> str:
    return _LETTERS[step.which % len(_LETTERS)]


_OFTEN: Mapping[str, int] = {
    "open": 5,
    "write": 5,
    "prepare": 5,
    "prove": 2,
    "commit": 8,
    "commit with the producer of another": 1,
    "commit under an unknown id": 1,
    "write late": 2,
    "prove late": 2,
    "abort by hand": 2,
    "delete evidence": 1,
    "read": 3,
}
_DRAWN = [_REST, *(what for what, weight in _OFTEN.items() for _ in range(weight))]
_ACTIONS: Mapping[str, Callable[[_Player, Step], None]] = {
    what: getattr(_Player, what.replace(" ", "_")) for what in [*_OFTEN, "leave open"]
}
