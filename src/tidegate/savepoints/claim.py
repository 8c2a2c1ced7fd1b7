"""The claim of a savepoint: exactly one job may continue under the job id in the savepoint.

The claim record is beside the savepoint's folder, on any storage; the folder itself stays unchanged. That of a retained
checkpoint is beside its number, in the folder of its job. The record is put if absent, before the job's new generation
counts. So of two jobs one has it, and a start after a kill finds its own claim. No other job can take the claim over,
not even with a rewind. A copy of the savepoint has no claim record: jobs that use the same folder are separated by the
record, all others by the evidence in the sinks.

The job's folder is recognized by its path and by a random token in it, which is written before the claim. A host name
is not enough: a pod returns to its folder under another host name, and two containers with one host name may have
different folders.
"""

from __future__ import annotations

import os
import secrets
import socket
from datetime import datetime, timezone

from msgspec.structs import replace

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import FolderToken, JobRecord, SavepointClaim, encode
from tidegate.disk.durable import Trust, sync_folder
from tidegate.savepoints.folder import Savepoint, claim_of
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder

_TOKEN = "folder-token"


def read_claim(savepoint: Savepoint) -> SavepointClaim | None:
    """The claim; None if there is none."""
    folder, name = _place(savepoint)
    return record_in(open_storage(folder), SavepointClaim, name)


def claimed_by_another(savepoint: Savepoint, target: JobRecord, job_folder: Folder) -> TidegateError | None:
    """The error if a job in another folder has claimed the savepoint's job id; None otherwise."""
    found = read_claim(savepoint)
    if found is None or _is_same(found, _claim(target, job_folder, _token_in(job_folder))):
        return None
    return _claimed(savepoint, found)


def against_claim(savepoint: Savepoint, target: JobRecord, job_folder: Folder) -> TidegateError | None:
    """The error against a claim by the job in this folder: another claim, or a disk that cannot be written. Other
    storages show at the claim whether they can be written.
    """
    folder, _ = _place(savepoint)
    if folder.is_local and read_claim(savepoint) is None and not os.access(folder.local(), os.W_OK):
        return _not_written(savepoint, folder)
    return claimed_by_another(savepoint, target, job_folder)


def claim(savepoint: Savepoint, target: JobRecord, job_folder: Folder) -> None:
    """Write the claim of a savepoint for this job, durably.

    Raises SAVEPOINT_CLAIMED if another job has it; storage errors.
    """
    folder, name = _place(savepoint)
    storage = open_storage(folder)
    token = _put_token(job_folder)
    try:
        storage.put_if_absent(name, encode(_claim(target, job_folder, token)))
    except TidegateError as error:  # also if the faster process has already cleaned up
        raise against_claim(savepoint, target, job_folder) or error from None
    against = against_claim(savepoint, target, job_folder)
    if against is not None:
        raise against
    storage.remove_leftovers("", name)
    if folder.is_local:
        with Trust().over(folder.local(), "claim a savepoint"):
            sync_folder(folder.local())


def _place(savepoint: Savepoint) -> tuple[Folder, str]:
    return claim_of(savepoint.found_at, savepoint.digest)


def _token_in(job_folder: Folder) -> str:
    """The token of the job's folder; "" if it has claimed nothing yet."""
    found = record_in(open_storage(job_folder), FolderToken, _TOKEN)
    return "" if found is None else found.token


def _put_token(job_folder: Folder) -> str:
    open_storage(job_folder).put_if_absent(_TOKEN, encode(FolderToken(token=secrets.token_hex(16))))
    return _token_in(job_folder)


def _claim(target: JobRecord, job_folder: Folder, token: str) -> SavepointClaim:
    return SavepointClaim(
        job=target.name,
        job_id=target.job_id,
        folder=str(job_folder.local().resolve()) if job_folder.is_local else str(job_folder),
        host=socket.gethostname(),
        at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        token=token,
    )


def _is_same(found: SavepointClaim, other: SavepointClaim) -> bool:
    known_by_host = found.token == ""
    same = (
        replace(found, at=other.at, token=other.token)
        if known_by_host
        else replace(found, at=other.at, host=other.host)
    )
    return same == other


def _claimed(savepoint: Savepoint, found: SavepointClaim) -> TidegateError:
    folder, name = _place(savepoint)
    remove = f"`rm {folder / name}`" if folder.is_local else f"remove {folder / name}"
    return TidegateError(
        Code.SAVEPOINT_CLAIMED,
        expected="a savepoint that no other job has claimed",
        found=f"job {found.job} in {found.folder} on {found.host} has job id {found.job_id} since {found.at}",
        where=str(savepoint.found_at),
        next_step="start the job there; or restore without --claim under another job name, into other targets; or, "
        f"if that job is never started again, {remove}",
    )


def _not_written(savepoint: Savepoint, folder: Folder) -> TidegateError:
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected="to write the claim record beside the savepoint",
        found=f"{folder} cannot be written",
        where=str(savepoint.found_at),
        next_step="copy the savepoint to a disk that can be written, and claim the copy; or restore without --claim",
    )
