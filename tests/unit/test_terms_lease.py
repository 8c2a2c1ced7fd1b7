"""The lease of terms and beats: who may take it, who has lost it, and what its records say."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clock import SimulatedClock
from tidegate.core.errors import Code, TidegateError
from tidegate.storages.lease import LeaseState
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.renewal import renew_until, renewing
from tidegate.storages.terms.decisions import Look, Proof, Sighting, Step, is_too_late, living, proof_of, step_of
from tidegate.storages.terms.here import Here
from tidegate.storages.terms.lease import HeldTerm, TermsLease
from tidegate.storages.terms.records import Term
from tidegate.testing.memory_storage import Memory, MemoryStorage
from tidegate.testing.storage_contract import at_once

TIMEOUT = 30.0


class Shaky(MemoryStorage):
    """A storage that can be told to fail, and to do something between its requests."""

    def __init__(self, memory: Memory, root: str = "", told: dict[str, Callable[[], None]] | None = None) -> None:
        super().__init__(memory, root)
        self.told = {} if told is None else told

    def below(self, folder: str) -> Shaky:
        return Shaky(self._memory, f"{self._name(folder)}/", self.told)

    def list(self, folder: str) -> list[str]:
        self._obey("list")
        return super().list(folder)

    def replace(self, name: str, data: bytes) -> None:
        self._obey("replace")
        super().replace(name, data)
        self._obey("replaced")

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self._obey("put")
        return super().put_if_absent(name, data)

    def _obey(self, request: str) -> None:
        if request in self.told:
            self.told[request]()


class Place:
    """One storage, one clock, and processes beside each other."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.memory = Memory()
        self.told: dict[str, Callable[[], None]] = {}
        self.folder = Shaky(self.memory, told=self.told).below("job")

    def process(self, number: int, *, is_self: Callable[[], int] | None = None) -> TermsLease:
        here = Here(self.clock.now, self.clock.sleep, is_self or (lambda: number))
        return TermsLease(self.folder, TIMEOUT, here=here)

    def names(self) -> list[str]:
        return sorted(name.removeprefix("job/lease/") for name in list(self.memory.records))

    def spoil(self, name: str, data: bytes = b"torn") -> None:
        self.folder.replace(f"lease/{name}", data)


@pytest.fixture
def place() -> Place:
    return Place()


def refused(lease: TermsLease, patience_seconds: float) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        lease.take("words", patience_seconds)
    assert caught.value.catalogue_entry is Code.DRIVER_ALIVE
    return caught.value


def is_lost(held: HeldTerm) -> bool:
    lost = held.lost()
    assert lost is None or lost.catalogue_entry is Code.LEASE_LOST
    return lost is not None


def unavailable() -> None:
    raise TidegateError(Code.STORAGE_UNUSABLE, expected="an answer", found="none", where="the storage")


# --- the decisions -----------------------------------------------------------------------------------------------


def watched(place: Place, *, count: int = 0, released: bool = False, since: float = 0.0, changes: int = 0) -> Sighting:
    term = Term(holder=Here(process=lambda: 7).holder("words"), token="t", timeout_seconds=TIMEOUT)
    return Sighting(Look(1, term, count, released), since, changes)


@pytest.mark.parametrize(
    ("sent_at", "changes", "ours", "released", "proof"),
    [
        (29.9, 0, False, False, Proof.UNPROVED),
        (30.0, 0, False, False, Proof.TIMED_OUT),
        (30.0, 1, False, False, Proof.TIMED_OUT),
        (29.9, 1, False, False, Proof.ALIVE),
        (99.0, 0, True, False, Proof.OURS),
        (0.0, 0, True, True, Proof.RELEASED),
    ],
)
def test_what_an_observer_knows_after_so_many_seconds(
    place: Place, sent_at: float, changes: int, ours: bool, released: bool, proof: Proof
) -> None:
    seen = watched(place, released=released, changes=changes)
    assert proof_of(seen, sent_at, ours=ours, changes_before=0) is proof


def test_a_change_before_the_take_began_is_no_sign_of_life(place: Place) -> None:
    assert proof_of(watched(place, changes=3), 1.0, ours=False, changes_before=3) is Proof.UNPROVED


def test_without_a_term_there_is_nothing_to_wait_for() -> None:
    nothing = Sighting(Look(0), 0.0)
    assert proof_of(nothing, 0.0, ours=False, changes_before=0) is Proof.NONE_EVER
    assert "no name" in living(nothing, Proof.UNPROVED, 0.0)


@pytest.mark.parametrize("proof", Proof)
def test_the_step_of_a_take(proof: Proof) -> None:
    step, at_the_end = (step_of(proof, patience_is_over=over) for over in (False, True))
    free = proof in (Proof.NONE_EVER, Proof.RELEASED, Proof.TIMED_OUT)
    assert step is (Step.TAKE if free else Step.WATCH if proof is Proof.UNPROVED else Step.REFUSE)
    assert at_the_end is (Step.TAKE if free else Step.REFUSE)


def test_the_time_of_a_beat_runs_from_the_first_look_that_saw_it(place: Place) -> None:
    first = watched(place, count=4, since=10.0)
    again = first.then(watched(place, count=4).look, 25.0)
    assert (again.since, again.changes) == (10.0, 0)
    other = again.then(watched(place, count=5).look, 27.0)
    assert (other.since, other.changes) == (27.0, 1)
    none = first.then(Look(2), 28.0)
    assert (none.since, none.changes) == (28.0, 1)


def test_a_holder_gives_up_after_two_thirds() -> None:
    assert not is_too_late(0.0, 19.9, TIMEOUT)
    assert is_too_late(0.0, 20.0, TIMEOUT)


# --- taking ------------------------------------------------------------------------------------------------------


def test_a_dead_holder_is_followed_after_its_timeout_and_no_sooner(place: Place) -> None:
    dead = place.process(1).take("words", 0)
    begun = place.clock.now()
    assert "free in 30.0 s" in refused(place.process(2), 0).found
    assert "free in 1.0 s" in refused(place.process(3), TIMEOUT - 1).found
    begun = place.clock.now()
    held = place.process(4).take("words", TIMEOUT)
    assert place.clock.now() - begun == pytest.approx(TIMEOUT)
    assert held.predecessor == dead.holder
    assert is_lost(dead)


def test_the_timeout_of_the_holder_counts_and_not_that_of_the_observer(place: Place) -> None:
    TermsLease(place.folder, 5, here=Here(place.clock.now, place.clock.sleep, lambda: 1)).take("words", 0)
    place.process(2).take("words", 5)
    assert place.clock.now() == pytest.approx(5)


def test_a_living_holder_is_named_as_soon_as_its_beat_changes(place: Place) -> None:
    held = place.process(1).take("words", 0)
    place.told["list"] = lambda: held.renew() if 11 < place.clock.now() < 14 and place.told.pop("list") else None
    begun = place.clock.now()
    error = refused(place.process(2), 100)
    assert place.clock.now() - begun < 15
    assert error.found == str(held.holder)


def test_a_beat_from_before_the_take_is_no_sign_of_life(place: Place) -> None:
    """The process has looked while the holder lived. Since then the holder has died."""
    held, other = place.process(1).take("words", 0), place.process(2)
    assert other.standing() is LeaseState.HELD
    held.renew()
    other.take("words", TIMEOUT)
    assert is_lost(held)


def test_a_beat_that_comes_late_begins_the_wait_again(place: Place) -> None:
    """The renewal was on its way when its holder died: the observer sees it after 25 seconds."""
    held, other = place.process(1).take("words", 0), place.process(2)
    assert other.standing() is LeaseState.HELD
    place.clock.sleep(10)
    held.renew()
    place.clock.sleep(15)
    assert other.standing() is LeaseState.HELD
    place.clock.sleep(29)
    assert other.standing() is LeaseState.HELD
    place.clock.sleep(1)
    assert other.standing() is LeaseState.FREE


def test_a_process_that_looks_again_and_again_learns_of_a_death(place: Place) -> None:
    place.process(1).take("words", 0)
    other = place.process(2)
    states: list[LeaseState] = []
    for _ in range(4):
        states.append(other.standing())
        place.clock.sleep(10)
    assert states == [LeaseState.HELD] * 3 + [LeaseState.FREE]
    other.take("words", 0)


def test_a_slow_look_does_not_shorten_the_wait(place: Place) -> None:
    """A look takes 40 seconds, more than the timeout: two looks are needed to see the same beat for so long."""
    place.process(1).take("words", 0)
    place.told["list"] = lambda: place.clock.sleep(40)
    other = place.process(2)
    assert other.standing() is LeaseState.HELD
    assert other.standing() is LeaseState.HELD
    assert other.standing() is LeaseState.FREE


def test_a_released_term_is_followed_at_once(place: Place) -> None:
    place.process(1).take("words", 0).release()
    assert "1.released" in place.names()
    place.process(2).take("words", 0)
    assert place.clock.now() == 0


def test_old_terms_go_with_their_successor_and_the_newest_one_stays(place: Place) -> None:
    for number in (1, 2, 3):
        with place.process(number).take("words", 0) as held:
            held.renew()
    assert place.names() == ["3", "3.beat", "3.released"]
    place.spoil("2.beat")  # a paused holder has woken up
    place.spoil("notes.txt")
    place.process(4).take("words", 0)
    assert place.names() == ["4", "notes.txt"]


def test_of_many_that_take_a_dead_lease_at_once_one_has_it(place: Place) -> None:
    place.process(1).take("words", 0)
    others = [place.process(number) for number in range(2, 6)]
    for other in others:
        other.standing()
    place.clock.sleep(TIMEOUT)

    def take(other: TermsLease) -> Callable[[], bool]:
        def act() -> bool:
            try:
                other.take("words", 0)
            except TidegateError:
                return False
            return True

        return act

    assert at_once([take(other) for other in others]).count(True) == 1


def test_a_taker_that_stood_still_before_its_put_does_not_hold_an_old_term(place: Place) -> None:
    """Others have taken and removed the term that it was about to create, so the put succeeds."""

    def meanwhile() -> None:
        del place.told["put"]
        for number in (2, 3, 4):
            place.process(number).take("words", 0).release()
        place.process(5).take("words", 0)

    place.told["put"] = meanwhile
    error = refused(place.process(1), 0)
    assert "process 5" in error.found
    assert place.process(6).standing() is LeaseState.HELD


def test_a_take_whose_first_list_fails_leaves_the_lease_free(place: Place) -> None:
    def failing() -> None:
        if "1" in place.names():
            unavailable()

    place.told["list"] = failing
    with pytest.raises(TidegateError) as caught:
        place.process(1).take("words", 0)
    assert caught.value.catalogue_entry is Code.STORAGE_UNUSABLE
    place.told.clear()
    assert place.process(2).standing() is LeaseState.FREE


# --- holding -----------------------------------------------------------------------------------------------------


def test_a_paused_holder_has_lost_it_before_anybody_takes_it(place: Place) -> None:
    held = place.process(1).take("words", 0)
    place.clock.sleep(19)
    assert held.lost_here() is None
    place.clock.sleep(1)
    assert held.lost_here() is not None
    with pytest.raises(TidegateError):
        held.renew()
    assert "1.beat" not in place.names()


def test_a_holder_sees_a_newer_term(place: Place) -> None:
    held = place.process(1).take("words", 0)
    held._here.now = lambda: 0.0  # its clock stood still, as in a machine that was suspended
    place.process(2).take("words", TIMEOUT)
    assert held.lost_here() is None
    assert is_lost(held)
    assert "number 2" in str(held.lost_here())


def test_a_holder_sees_a_newer_term_after_its_successors_have_gone_on(place: Place) -> None:
    held = place.process(1).take("words", 0)
    held._here.now = lambda: 0.0
    place.process(2).take("words", TIMEOUT).release()
    place.process(3).take("words", 0)
    assert is_lost(held)


def test_the_time_of_a_renewal_is_that_before_its_request(place: Place) -> None:
    held = place.process(1).take("words", 0)
    place.told["replaced"] = lambda: place.clock.sleep(15)
    held.renew()
    place.clock.sleep(4)
    assert held.lost_here() is None
    place.clock.sleep(1)
    assert held.lost_here() is not None


def test_the_time_of_a_take_is_that_before_its_request(place: Place) -> None:
    place.told["put"] = lambda: place.clock.sleep(20)
    held = place.process(1).take("words", 0)
    assert held.lost_here() is not None


def test_a_renewal_that_is_answered_too_late_does_not_count(place: Place) -> None:
    held = place.process(1).take("words", 0)
    place.clock.sleep(19)
    place.told["replaced"] = lambda: place.clock.sleep(2)
    with pytest.raises(TidegateError) as caught:
        held.renew()
    assert caught.value.catalogue_entry is Code.LEASE_LOST


def test_a_holder_whose_renewals_fail_tries_again_until_it_has_lost_the_lease(place: Place) -> None:
    held = place.process(1).take("words", 0)
    pauses: list[float] = []

    def ended(seconds: float) -> bool:
        pauses.append(seconds)
        place.clock.sleep(seconds)
        return False

    place.told["replace"] = lambda: unavailable() if place.clock.now() > 15 else None
    renew_until(held, 10, ended)
    assert pauses == [10, 10, 2.5, 2.5, 2.5, 2.5]
    assert place.clock.now() == 30  # two thirds after the renewal that was sent at 10
    assert is_lost(held)


def test_a_lease_is_renewed_inside_the_block_by_a_thread(place: Place) -> None:
    renewed = threading.Event()

    class Quick(HeldTerm):
        def renew(self) -> None:
            renewed.set()

    held = place.process(1).take("words", 0)
    held.__class__ = Quick
    held.renewal_seconds = 0.001
    with renewing(held):
        assert renewed.wait(60)


def test_a_forked_child_does_not_hold_the_lease_of_its_parent(place: Place) -> None:
    pid = os.getpid()
    process = [pid]
    held = place.process(pid, is_self=lambda: process[0]).take("words", 0)
    process[0] = pid + 1
    assert is_lost(held)
    held.release()
    with pytest.raises(TidegateError):
        held.renew()
    process[0] = pid
    assert not is_lost(held)
    assert place.names() == ["1"]


def test_a_release_that_cannot_be_written_is_logged_and_the_term_times_out(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    held = place.process(1).take("words", 0)
    place.told["put"] = unavailable
    held.release()
    assert "waits for 30 s (lease.timeout)" in caplog.text
    place.told.clear()
    assert place.process(2).standing() is LeaseState.HELD


# --- records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["1", "1.beat", "1.released"])
@pytest.mark.parametrize("data", [b"", b"torn", b"tidegate lease-term 9 sha256:0\n{}\n"])
def test_a_torn_or_unknown_record_is_an_error_that_names_the_file(place: Place, name: str, data: bytes) -> None:
    held = place.process(1).take("words", 0)
    held.renew()
    place.spoil(name, data)
    other = place.process(2)
    for act in (other.standing, lambda: other.take("words", 0)):
        with pytest.raises(TidegateError) as caught:
            act()
        assert caught.value.catalogue_entry in (Code.RECORD_CORRUPT, Code.RECORD_NEWER)
        assert caught.value.where.endswith(f"lease/{name}")
    assert other.holder() is None


def test_a_list_that_names_a_term_that_is_not_there_is_an_error_of_the_storage(place: Place) -> None:
    place.process(1).take("words", 0)
    del place.memory.records["job/lease/1"]
    place.spoil("1.beat")
    assert place.process(2).standing() is LeaseState.FREE

    class Lying(Shaky):
        def list(self, folder: str) -> list[str]:
            return ["1"]

        def below(self, folder: str) -> Lying:
            return Lying(self._memory, f"{self._name(folder)}/")

    with pytest.raises(TidegateError) as caught:
        TermsLease(Lying(place.memory).below("job")).standing()
    assert caught.value.catalogue_entry is Code.STORAGE_UNUSABLE


def test_the_taker_of_a_term_removes_what_a_killed_holder_was_writing(tmp_path: Path) -> None:
    clock = SimulatedClock()
    storage = LocalStorage(tmp_path)
    here = Here(clock.now, clock.sleep)
    TermsLease(storage, TIMEOUT, here=here).take("job", 0).release()
    left = tmp_path / "lease" / ".1.beat.5f0c.tidegate.tmp"
    other = tmp_path / "lease" / ".11.beat.5f0c.tidegate.tmp"
    for file in (left, other):
        file.write_bytes(b"half")
    TermsLease(storage, TIMEOUT, here=here).take("job", 0).release()
    assert (left.exists(), other.exists()) == (False, True)
