"""The contract of a `Lease` as a suite of tests. Needs pytest.

    class TestMyLease(LeaseContract):
        def open(self) -> Lease: ...
        def another_driver(self) -> AbstractContextManager[Callable[[], None]]: ...
        def take_away(self, held: HeldLease) -> None: ...

The three methods prepare the lease; the tests are inherited.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.storages.lease import HeldLease, Lease, LeaseState
from tidegate.testing.contract_parts import demand
from tidegate.testing.storage_contract import at_once


class LeaseContract(ABC):
    """The tests that every implementation of `Lease` must pass. Inherit them in a test class named `Test...`.

    The test class defines three methods: `open` returns the lease under test, `another_driver` lets a second process
    hold that lease, and `take_away` makes the holder lose it.
    """

    folder: Path
    """An empty folder for each test, for a lease that stores files."""

    job = "words"
    """The name of the job whose lease the tests take."""

    patience_seconds = 10.0
    """The longest wait of a take for a dead holder, in seconds. Must be more than the lease's timeout."""

    races = 20
    """The number of rounds of a test with several processes or threads that take the lease at the same time."""

    @abstractmethod
    def open(self) -> Lease:
        """Open the lease of this test, which no process has held when the test begins.

        Each call returns a new object.
        """

    @abstractmethod
    def another_driver(self) -> AbstractContextManager[Callable[[], None]]:
        """A context. Inside it another process holds the lease of `self.job`, or has held it and is dead.

        It yields a function that kills that process.
        """

    @abstractmethod
    def take_away(self, held: HeldLease) -> None:
        """Make the holder lose its lease, as another process or an operator could.

        Examples: a newer term, a deleted lock, a renewal that came too late. Afterwards the lease can be taken.
        """

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def taken(self) -> HeldLease:
        """Take the lease in this process, and wait for it if needed."""
        return self.open().take(self.job, self.patience_seconds)

    def refused(self) -> TidegateError:
        """Call `take` in this process, without a wait, and return the error that it raises."""
        with pytest.raises(TidegateError) as caught:
            self.open().take(self.job, patience_seconds=0)
        demand(caught.value.catalogue_entry is Code.DRIVER_ALIVE, f"a take that fails is DRIVER_ALIVE: {caught.value}")
        return caught.value

    # --- one holder ------------------------------------------------------------------------------------------

    def test_before_the_first_driver_it_is_free_and_names_no_process(self) -> None:
        demand(self.open().standing() is LeaseState.FREE, "a lease that was never taken is free")
        demand(self.open().holder() is None, "and had no holder")

    def test_the_holder_is_named_to_every_process(self) -> None:
        with self.taken() as held:
            holder = held.holder
            demand((holder.job, holder.process) == (self.job, os.getpid()), f"the holder is this process: {holder}")
            demand(holder.host == socket.gethostname(), f"on this machine: {holder}")
            demand(held.predecessor is None, f"before it there was none: {held.predecessor}")
            demand(self.open().holder() == holder, "each opening names the same holder")
            demand(self.open().standing() is LeaseState.HELD, "and sees that it is held")

    def test_a_second_start_in_one_process_is_refused(self) -> None:
        with self.taken() as held:
            for _ in range(2):
                demand("this same process" in self.refused().found, "a second start here is told so")
            demand(held.lost() is None, "the first one still holds it")
            demand(self.open().standing() is LeaseState.HELD, "for every observer")

    def test_of_two_processes_the_second_is_refused_with_the_name_of_the_first(self) -> None:
        with self.another_driver():
            holder = self.open().holder()
            demand(holder is not None and holder.process != os.getpid(), f"the other process is named: {holder}")
            demand(str(holder) in self.refused().found, "the refusal names it")
            demand(self.open().standing() is LeaseState.HELD, "it still holds the lease")
            demand(self.open().holder() == holder, "a refused process leaves no name of its own")

    def test_of_many_starts_at_once_exactly_one_takes_it(self) -> None:
        for _ in range(self.races):
            with ExitStack() as stack:

                def start(stack: ExitStack = stack) -> bool:
                    try:
                        stack.callback(self.open().take(self.job, patience_seconds=0).release)
                    except TidegateError:
                        return False
                    return True

                took = at_once([start] * 4)
                demand(took.count(True) == 1, f"of four starts at once one takes the lease, not {took.count(True)}")

    def test_its_age_begins_anew_with_each_renewal(self) -> None:
        with self.taken() as held:
            before = held.age_seconds()
            held.renew()
            after = held.age_seconds()
        supervised = held.renewal_seconds is None
        demand((before is None, after is None) == (supervised, supervised), "only a lease with a beat has an age")
        demand(before is None or after is None or after < 5.0, f"it was renewed just now: {after}")

    # --- its end ---------------------------------------------------------------------------------------------

    def test_a_lease_that_was_released_is_free_at_once(self) -> None:
        held = self.taken()
        held.release()
        held.release()
        demand(self.open().standing() is LeaseState.FREE, "it is free for every observer")
        demand(self.open().holder() == held.holder, "its last holder is still named")
        demand(held.lost() is not None, "who has released it holds it no longer")
        with self.open().take(self.job, patience_seconds=0) as again:
            demand(again.predecessor == held.holder, f"the next holder knows the last: {again.predecessor}")
            held.release()
            demand(again.lost() is None, "a late release of the last one takes nothing from it")
            self.refused()

    def test_the_lease_of_a_process_that_was_killed_can_be_taken(self) -> None:
        with self.another_driver() as kill:
            killed = self.open().holder()
            kill()
            with self.taken() as held:
                demand(held.predecessor == killed, f"the next holder knows whom it follows: {held.predecessor}")
                demand(self.open().holder() == held.holder, "every process sees the new holder")
                demand(held.lost() is None, "the new holder holds it")

    # --- holding and losing ----------------------------------------------------------------------------------

    def test_a_holder_that_renews_keeps_it(self) -> None:
        with self.taken() as held:
            for _ in range(self.races):
                held.renew()
                demand(held.lost() is None, "a lease that is renewed in time is not lost")
            self.refused()

    def test_a_holder_that_has_lost_it_is_told(self) -> None:
        held = self.taken()
        self.take_away(held)
        for _ in range(2):
            lost = held.lost()
            demand(lost is not None and lost.catalogue_entry is Code.LEASE_LOST, f"it is told so: {lost}")
        with pytest.raises(TidegateError) as caught:
            held.renew()
        demand(caught.value.catalogue_entry is Code.LEASE_LOST, "a renewal that comes too late is refused")
        held.release()

    def test_a_holder_that_has_lost_it_takes_nothing_from_the_next(self) -> None:
        held = self.taken()
        self.take_away(held)
        with self.another_driver():
            following = self.open().holder()
            demand(held.lost() is not None, "the first one is told that it has lost the lease")
            with pytest.raises(TidegateError):
                held.renew()
            held.release()
            demand(self.open().standing() is LeaseState.HELD, "the next one still holds it")
            demand(self.open().holder() == following, "and is still named")
            self.refused()

    def test_looking_disturbs_no_holder(self) -> None:
        with self.taken() as held:
            for _ in range(self.races):
                lease = self.open()
                demand(lease.standing() is LeaseState.HELD, "each look sees that it is held")
                demand(lease.holder() == held.holder, f"and by whom, at {lease.where()}")
            demand(held.lost() is None, "a look takes no lease away")
            self.refused()
