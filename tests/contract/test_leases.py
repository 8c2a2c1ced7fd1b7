"""The leases that there are, under the contract that is shipped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import pytest

from tidegate.storages.lease import HeldLease, Lease
from tidegate.storages.leases import open_lease
from tidegate.storages.local.locks import DRIVER_LOCK
from tidegate.testing.contract_parts import ContractBroken
from tidegate.testing.lease_contract import LeaseContract
from tidegate.testing.memory_lease import MemoryHeld, MemoryLease, Terms

_HOLD = """
import sys
from tidegate.storages.leases import open_lease
held = open_lease(sys.argv[1]).take(sys.argv[2], 0)
print("held", flush=True)
sys.stdin.read()
"""


class TestLocalLease(LeaseContract):
    def open(self) -> Lease:
        return open_lease((self.folder / "job").as_uri())

    @contextmanager
    def another_driver(self) -> Generator[Callable[[], None]]:
        command = [sys.executable, "-c", _HOLD, str(self.folder / "job"), self.job]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"held\n"
                yield partial(_kill, process)
            finally:
                process.kill()

    def take_away(self, held: HeldLease) -> None:
        os.unlink(self.folder / "job" / DRIVER_LOCK)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


class OnTerms(LeaseContract):
    """On terms and beats in memory."""

    terms: Terms

    @pytest.fixture(autouse=True)
    def _terms(self) -> None:
        self.terms = Terms()

    def open(self) -> Lease:
        return MemoryLease(self.terms)

    @contextmanager
    def another_driver(self) -> Generator[Callable[[], None]]:
        MemoryLease(self.terms, process=os.getpid() + 1).take(self.job, self.terms.timeout_seconds)
        yield lambda: None  # it renews no more

    def take_away(self, held: HeldLease) -> None:
        self.terms.now += self.terms.timeout_seconds


class TestMemoryLease(OnTerms):
    pass


# --- the suite finds what is wrong -------------------------------------------------------------------------


class Blind(MemoryHeld):
    """A holder that never looks whether it still is one."""

    def lost(self) -> None:
        return None


class Grasping(MemoryHeld):
    """A holder whose renewal takes the place of a newer term."""

    def renew(self) -> None:
        del self._terms.taken[self._number + 1 :]


class Careless(MemoryHeld):
    """A holder that releases whatever term is the newest."""

    def release(self) -> None:
        self._terms.taken[-1].released = True


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
def test_the_suite_finds_a_lease_that_breaks_it(flawed: type[MemoryHeld], test: str) -> None:
    class Flawed(MemoryLease):
        def take(self, job: str, patience_seconds: float) -> MemoryHeld:
            super().take(job, patience_seconds)
            return flawed(self._terms, len(self._terms.taken) - 1)

    class Suite(OnTerms):
        def open(self) -> Lease:
            return Flawed(self.terms)

    suite = Suite()
    suite.terms = Terms()
    with pytest.raises((ContractBroken, pytest.fail.Exception)):
        getattr(suite, test)()
