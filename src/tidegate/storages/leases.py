"""The one place that opens the lease of a job, by the scheme of the job's folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.storages.lease import Lease, LeaseState
from tidegate.storages.local.lease import LocalLease
from tidegate.storages.schemes import Folder, Scheme, Where


def open_lease(job_folder: Where) -> Lease:
    """The lease of the job in this folder: a path, or a URI. Sends no request to the storage yet.

    Raises SETTING_VALUE for a scheme without a storage.
    """
    folder = Folder.of(job_folder)
    return _LEASES[folder.scheme](folder)


def driver_lives(job_folder: Where) -> bool:
    """True if a driver holds the job's lease."""
    return open_lease(job_folder).standing() is LeaseState.HELD


def driver_or_engine_lives(job_folder: Where) -> bool:
    """True if a process may still write to the job: its driver, or the engine of a killed driver."""
    return open_lease(job_folder).standing() is not LeaseState.FREE


_LEASES: Mapping[Scheme, Callable[[Folder], Lease]] = {Scheme.FILE: lambda folder: LocalLease(folder.path)}
