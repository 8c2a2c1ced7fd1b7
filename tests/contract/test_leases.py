"""The leases that there are, under the contract that is shipped."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.support.clock import SimulatedClock
from tests.support.s3 import S3Server
from tidegate.storages.lease import HeldLease, Lease
from tidegate.storages.leases import open_lease
from tidegate.storages.local.locks import DRIVER_LOCK
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where
from tidegate.storages.storage import Storage
from tidegate.storages.terms.here import Here
from tidegate.storages.terms.lease import HeldTerm, TermsLease
from tidegate.storages.terms.records import LEASE, Released, Term, encoded, name_of, newest_of, remove_below
from tidegate.testing.contract_parts import ContractBroken
from tidegate.testing.lease_contract import LeaseContract
from tidegate.testing.memory_storage import Memory, MemoryStorage

_HOLD = """
import sys
from tidegate.storages.leases import open_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.renewal import renewing
from tidegate.storages.terms.lease import TermsLease
folder, job, timeout = sys.argv[1:]
lease = TermsLease(open_storage(folder, 2.0), float(timeout)) if timeout else open_lease(folder)
held = lease.take(job, 0)
with renewing(held):
    print("held", flush=True)
    sys.stdin.read()
"""


class BesideAProcess(LeaseContract):
    """The other driver is another process."""

    timeout = ""
    first = ""
    """What the other process executes first."""

    def place(self) -> Where:
        """The folder of the job."""
        return self.folder / "job"

    @contextmanager
    def another_driver(self) -> Generator[Callable[[], None]]:
        command = [sys.executable, "-c", self.first + _HOLD, str(self.place()), self.job, self.timeout]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"held\n"
                yield partial(_kill, process)
            finally:
                process.kill()

    @abstractmethod
    def take_away(self, held: HeldLease) -> None: ...


class TestLocalLease(BesideAProcess):
    def open(self) -> Lease:
        return open_lease((self.folder / "job").as_uri())

    def take_away(self, held: HeldLease) -> None:
        os.unlink(self.folder / "job" / DRIVER_LOCK)


class OfTerms(BesideAProcess):
    """Terms as records of a storage, with the clock of the machine."""

    timeout = "2"
    races = 5

    def open(self) -> Lease:
        return TermsLease(open_storage(self.place(), 2.0), float(self.timeout))

    def take_away(self, held: HeldLease) -> None:
        """Another process has taken it, and has ended."""
        storage = open_storage(self.place()).below(LEASE)
        number = newest_of(storage.list("")) + 1
        term = Term(holder=held.holder, token="another", timeout_seconds=2)
        assert storage.put_if_absent(name_of(Term, number), encoded(term))
        assert storage.put_if_absent(name_of(Released, number), encoded(Released(token="another")))


class TestTermsOnADisk(OfTerms):
    """In files."""


class TestTermsInABucket(OfTerms):
    """In a bucket of S3, whose requests take longer."""

    timeout = "4"

    @pytest.fixture(autouse=True)
    def _bucket(self, s3: S3Server) -> None:
        self.root = s3.folder()

    def place(self) -> Where:
        return self.root / "job"


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


class OnTerms(LeaseContract):
    """On terms and beats in memory."""

    patience_seconds = 15.0

    @pytest.fixture(autouse=True)
    def _terms(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.clock = SimulatedClock()
        self.storage: Storage = MemoryStorage(Memory())
        self.here = Here(self.clock.now, self.clock.sleep)

    def open(self) -> Lease:
        return TermsLease(self.storage, 10, here=self.here)

    @contextmanager
    def another_driver(self) -> Generator[Callable[[], None]]:
        another = Here(self.clock.now, self.clock.sleep, lambda: os.getpid() + 1)
        TermsLease(self.storage, 10, here=another).take(self.job, self.patience_seconds)
        yield lambda: None  # it renews no more

    def take_away(self, held: HeldLease) -> None:
        self.clock.sleep(10)


class TestTermsLease(OnTerms):
    pass


def test_after_a_takeover_the_log_of_the_winner_and_the_error_of_the_loser_name_the_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage, stopped, running = MemoryStorage(Memory()), SimulatedClock(), SimulatedClock()
    loser = TermsLease(storage, 10, here=Here(stopped.now, stopped.sleep, lambda: 1)).take("words", 0)
    TermsLease(storage, 10, here=Here(running.now, running.sleep, lambda: 2)).take("words", 20)
    (warning,) = caplog.messages
    assert f"takes term 2 of the lease; {loser.holder} has not released term 1" in warning
    lost = loser.lost()
    assert lost is not None
    assert "a newer term exists: number 2 has process 2 on " in str(lost)


# --- the suite finds what is wrong -------------------------------------------------------------------------


class Blind(HeldTerm):
    """A holder that never looks whether it still is one."""

    def lost(self) -> None:
        return None

    def lost_here(self) -> None:
        return None


class Grasping(HeldTerm):
    """A holder whose renewal takes the place of a newer term."""

    def renew(self) -> None:
        remove_below(self._storage, 10)
        self._storage.put_if_absent(name_of(Term, 10), encoded(self._term))


class Careless(HeldTerm):
    """A holder that releases whatever term is the newest."""

    def release(self) -> None:
        number = newest_of(self._storage.list(""))
        self._storage.put_if_absent(name_of(Released, number), encoded(Released(token=self._term.token)))
        super().release()


@pytest.mark.parametrize(
    ("flawed", "test"),
    [
        (Blind, "test_a_holder_that_has_lost_it_is_told"),
        (Blind, "test_a_lease_that_was_released_is_free_at_once"),
        (Grasping, "test_a_holder_that_has_lost_it_takes_nothing_from_the_next"),
        (Careless, "test_a_lease_that_was_released_is_free_at_once"),
        (Careless, "test_a_holder_that_has_lost_it_takes_nothing_from_the_next"),
    ],
)
def test_the_suite_finds_a_lease_that_breaks_it(flawed: type[HeldTerm], test: str) -> None:
    class Flawed(TermsLease):
        def take(self, job: str, patience_seconds: float) -> HeldTerm:
            held = super().take(job, patience_seconds)
            held.__class__ = flawed
            return held

    class Suite(OnTerms):
        def open(self) -> Lease:
            return Flawed(self.storage, 10, here=self.here)

    suite = Suite()
    suite.begin()
    with pytest.raises((ContractBroken, pytest.fail.Exception)):
        getattr(suite, test)()
