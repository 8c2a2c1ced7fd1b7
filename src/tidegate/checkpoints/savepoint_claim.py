"""Who has claimed a savepoint: one job goes on under its job id, wherever that job stands, and no other.

The record stands beside the savepoint's folder, which stays as it was taken. It is put before the job's new generation
counts: whoever was killed in between finds it there as its own. A copy of the savepoint has no claim, so this keeps
apart who names the same folder, and what the sinks have as evidence everybody else.
"""

from __future__ import annotations

import socket
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from tidegate.checkpoints.savepoint_folder import Savepoint, claim_of
from tidegate.checkpoints.storage import LocalStorage
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import JobRecord, SavepointClaim, decode, encode


def read_claim(savepoint: Savepoint) -> SavepointClaim | None:
    """Who has claimed it; None where nobody has."""
    path = claim_of(savepoint.folder)
    data = LocalStorage(path.parent).read(path.name)
    return None if data is None else decode(SavepointClaim, data, str(path))


def claimed_by_another(savepoint: Savepoint, target: JobRecord, job_folder: Path) -> TidegateError | None:
    """What stands against a claim by the job in this folder."""
    found = read_claim(savepoint)
    if found is None or _is_same(found, _claim(target, job_folder)):
        return None
    return TidegateError(
        Code.SAVEPOINT_CLAIMED,
        expected="a savepoint that no other job has claimed",
        found=f"job {found.job} in {found.folder} on {found.host} goes on under job id {found.job_id} since {found.at}",
        where=str(savepoint.found_at),
        next_step="restore without --claim under another job name, into other targets; to go back behind what that job "
        f"has shown: --rewind; or, when nothing goes on there, remove {claim_of(savepoint.folder)}",
    )


def claim(savepoint: Savepoint, target: JobRecord, job_folder: Path, *, anew: bool) -> None:
    """Claim it, durably; with `anew` also where another job has. Raises SAVEPOINT_CLAIMED, and what the disk has to
    say."""
    wanted, path = _claim(target, job_folder), claim_of(savepoint.folder)
    storage = LocalStorage(path.parent)
    if not storage.put_if_absent(path.name, encode(wanted)):
        error = claimed_by_another(savepoint, target, job_folder)
        if error is not None and not anew:
            raise error
        if error is not None:
            storage.replace(path.name, encode(wanted))
    storage.remove_leftovers("", path.name)


def _claim(target: JobRecord, job_folder: Path) -> SavepointClaim:
    return SavepointClaim(
        job=target.name,
        job_id=target.job_id,
        folder=str(job_folder.absolute()),
        host=socket.gethostname(),
        at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _is_same(found: SavepointClaim, other: SavepointClaim) -> bool:
    return msgspec.structs.replace(found, at=other.at) == other
