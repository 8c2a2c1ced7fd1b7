"""The one place that opens the lease of a job, by the scheme of the job's folder."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from tidegate.storages.lease import LEASE_TIMEOUT_SECONDS, HeldLease, Lease, LeaseState
from tidegate.storages.local.lease import LocalLease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder, Scheme, Where


def open_lease(job_folder: Where, timeout_seconds: float = LEASE_TIMEOUT_SECONDS) -> Lease:
    """The lease of the job in this folder: a path, or a URI. Sends no request to the storage yet.

    `timeout_seconds`: for how long others must see no sign of life of this process before they take its lease, where
    holders prove their life by a beat. Raises SETTING_VALUE for a scheme without a storage.
    """
    folder = Folder.of(job_folder)
    return _LEASES[folder.scheme](folder, timeout_seconds)


@contextmanager
def taken_lease(
    job_folder: Where, job: str, patience_seconds: float, timeout_seconds: float = LEASE_TIMEOUT_SECONDS
) -> Generator[HeldLease]:
    """The job's lease: taken (`Lease.take`), renewed inside the block, and released at its end."""
    from tidegate.storages.renewal import renewing  # only where it is needed: no command is to wait for it

    with open_lease(job_folder, timeout_seconds).take(job, patience_seconds) as held, renewing(held):
        yield held


def driver_lives(job_folder: Where) -> bool:
    """True if a driver holds the job's lease."""
    return open_lease(job_folder).standing() is LeaseState.HELD


def driver_or_engine_lives(job_folder: Where) -> bool:
    """True if a process may still write to the job: its driver, or the engine of a killed driver."""
    return open_lease(job_folder).standing() is not LeaseState.FREE


def _terms(folder: Folder, timeout_seconds: float) -> Lease:
    from tidegate.storages.terms.lease import TermsLease  # only where it is needed: no command is to wait for it

    answer_seconds = max(timeout_seconds / _ANSWERS_IN_A_TIMEOUT, _SHORTEST_ANSWER_SECONDS)
    return TermsLease(open_storage(folder, answer_seconds), timeout_seconds)


_ANSWERS_IN_A_TIMEOUT = 6
"""A renewal begins after a third of the timeout and counts up to two thirds: one request may be lost without a word."""

_SHORTEST_ANSWER_SECONDS = 2.0


_LEASES: Mapping[Scheme, Callable[[Folder, float], Lease]] = {
    Scheme.FILE: lambda folder, _: LocalLease(folder.path),
    Scheme.S3: _terms,
    Scheme.HDFS: _terms,
    Scheme.VIEWFS: _terms,
}
"""A storage without locks has terms."""
