"""What a start accepts is durable before Spark starts the query; a kill or a second driver changes nothing of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.unit.test_fingerprints import COUNT, operator
from tidegate.core import effects as fx
from tidegate.core.errors import TidegateError
from tidegate.core.fingerprints import Allowed
from tidegate.core.generation_start import begin_generation, compare_with_ledger
from tidegate.core.ledger import OPERATORS, START, Query, entry
from tidegate.core.records import OperatorFingerprint, OperatorsAccepted, Run, Start, decode, encode

RUN = Run(run=1, token="0a0b0c0d", host="here", process=1, since="now")
SUM = Query(
    job="job",
    job_id="0f1e2d3c",
    generation=1,
    uid="query",
    sources=("in",),
    sinks=("out",),
    fingerprints=(operator(),),
)
ALLOWS = replace(SUM, fingerprints=(COUNT,), allowed=Allowed(("totals",), once="0a1b"))
ONE_EPOCH = {"ledger/decided/0": b"decided", "spark/commits/0": b"v1\n{}"}


class Killed(Exception):
    """The process has died."""


class Folder:
    """Files by name. `dies_at`: the number of the put before which the process dies, and after which with a half."""

    def __init__(self, files: Mapping[str, bytes] = {}, dies_at: float = -1) -> None:
        self.files = dict(files)
        self._dies_at = dies_at
        self._puts = 0
        self.rival: dict[str, bytes] = {}
        """What another driver puts just before this one puts the same name."""

    def run(self, steps: fx.Steps[object]) -> None:
        answer: object = None
        try:
            while True:
                effect = steps.send(answer)
                answer = self._do(effect)
        except StopIteration:
            return

    def _do(self, effect: object) -> object:
        match effect:
            case fx.Get(name) | fx.Recall(name):
                return self.files.get(name)
            case fx.List(folder):
                return [name.rpartition("/")[2] for name in self.files if name.rpartition("/")[0] == folder]
            case fx.PutIfAbsent(name, data):
                self._die(self._puts)
                if name in self.rival:
                    self.files.setdefault(name, self.rival.pop(name))
                created = name not in self.files
                self.files.setdefault(name, data)
                self._die(self._puts + 0.5)
                self._puts += 1
                return created
            case _:
                raise AssertionError(effect)

    def _die(self, moment: float) -> None:
        if moment == self._dies_at:
            raise Killed

    @property
    def in_force(self) -> tuple[OperatorFingerprint, ...] | None:
        accepted = sorted(name for name in self.files if name.startswith(OPERATORS))
        if accepted:
            return decode(OperatorsAccepted, self.files[accepted[-1]], "").fingerprints
        return decode(Start, self.files[START], "").fingerprints


def begun() -> dict[str, bytes]:
    """A generation of the sum with one epoch."""
    folder = Folder()
    folder.run(begin_generation(SUM, RUN))
    return {**folder.files, **ONE_EPOCH}


def test_a_start_has_the_fingerprints_and_a_later_one_puts_nothing():
    folder = Folder(begun())
    folder.run(begin_generation(SUM, RUN))
    assert folder.files == begun()
    assert folder.in_force == (operator(),)


def test_another_program_is_refused_and_puts_nothing():
    folder = Folder(begun())
    with pytest.raises(TidegateError) as caught:
        folder.run(begin_generation(replace(SUM, fingerprints=(COUNT,)), RUN))
    assert (caught.value.code, folder.files) == ("TG-OPERATOR-CHANGED", begun())


@pytest.mark.parametrize("moment", [0, 0.5, 1, 1.5])
def test_a_start_that_is_killed_has_accepted_whole_or_not_at_all(moment: float):
    """The first put is that of *start*, which is there."""
    folder = Folder(begun(), dies_at=moment)
    with pytest.raises(Killed):
        folder.run(begin_generation(ALLOWS, RUN))
    again = Folder(folder.files)
    without_the_option = replace(ALLOWS, allowed=SUM.allowed)
    if moment < 1.5:
        assert again.files == begun()
        with pytest.raises(TidegateError):
            again.run(begin_generation(without_the_option, RUN))
        again.run(begin_generation(ALLOWS, RUN))
    again.run(begin_generation(without_the_option, RUN))
    assert again.in_force == (COUNT,)
    assert [name for name in again.files if name.startswith(OPERATORS)] == [entry(OPERATORS, 1)]


def test_accepted_twice_it_is_one_record_and_the_way_back_is_a_difference():
    folder = Folder(begun())
    for _ in range(2):
        folder.run(begin_generation(ALLOWS, RUN))
    with pytest.raises(TidegateError):
        folder.run(begin_generation(SUM, RUN))
    back = replace(SUM, allowed=Allowed(("totals",), once="2c3d"))
    folder.run(begin_generation(back, RUN))
    assert (folder.in_force, len(folder.files)) == ((operator(),), len(begun()) + 2)


def test_one_command_accepts_once_however_often_its_driver_is_started():
    folder = Folder(begun())
    folder.run(begin_generation(ALLOWS, RUN))
    again = replace(ALLOWS, fingerprints=(operator(parts={"keys": "other"}),))
    with pytest.raises(TidegateError):
        folder.run(begin_generation(again, RUN))


@pytest.mark.parametrize(("accepts", "is_refused"), [(COUNT, False), (operator(parts={"keys": "other"}), True)])
def test_of_two_drivers_that_accept_at_once_the_second_compares_again(accepts: OperatorFingerprint, is_refused: bool):
    """The other one has accepted the same, or a third program."""
    folder = Folder(begun())
    folder.rival[entry(OPERATORS, 1)] = encode(OperatorsAccepted(fingerprints=(accepts,), at="now", once="ffff"))
    plain = replace(ALLOWS, allowed=Allowed(("totals",)) if not is_refused else Allowed(("totals",), once="ffff"))
    if is_refused:
        with pytest.raises(TidegateError):
            folder.run(begin_generation(plain, RUN))
    else:
        folder.run(begin_generation(plain, RUN))
    assert folder.in_force == (accepts,)


def test_a_checkpoint_without_fingerprints_takes_those_of_the_next_start():
    older = {**begun(), START: encode(replace(SUM, fingerprints=None).start(0))}
    folder = Folder(older)
    folder.run(begin_generation(SUM, RUN))
    assert folder.in_force == (operator(),)
    with pytest.raises(TidegateError):
        folder.run(begin_generation(replace(SUM, fingerprints=(COUNT,)), RUN))


def test_without_a_decided_epoch_there_is_no_state_that_could_not_fit():
    files = begun()
    folder = Folder({START: files[START], "spark/offsets/0": b"undecided"})
    folder.run(begin_generation(replace(SUM, fingerprints=(COUNT,)), RUN))
    assert folder.in_force == (COUNT,)


def test_who_does_not_know_the_program_compares_nothing():
    folder = Folder(begun())
    folder.run(begin_generation(replace(SUM, fingerprints=None), RUN))
    folder.run(compare_with_ledger(replace(SUM, fingerprints=None)))
    assert folder.files == begun()
