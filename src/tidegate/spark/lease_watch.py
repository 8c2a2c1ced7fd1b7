"""What a job does about its lease while it runs: it stops as soon as it knows that it has lost it.

Each run asks before every effect of the protocol (`RunRules.lost_lease`), so that nothing is committed by a process
that was paused and then resumes. The companion here ends an idle job.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.settings.kinds import Backend
from tidegate.spark.companions import Companion
from tidegate.storages.lease import HeldLease, Lease
from tidegate.storages.schemes import Scheme


class LeaseWatch(Companion):
    """Ends the job with the error of the lease, once it is lost."""

    def __init__(self, held: HeldLease) -> None:
        self._held = held

    def look(self) -> None:
        if (lost := self._held.lost_here()) is not None:
            raise lost


def check_lease(lease: Lease, mode: Level, backend: Backend, scheme: Scheme, where: str) -> Iterator[TidegateError]:
    """The errors of a job that needs the proof that no other driver and no other engine is alive, on a storage whose
    lease cannot give it. `scheme`: of the job's folder.
    """
    if lease.proves_the_engine_dead:
        return
    found = "a storage without locks: a paused driver may continue beside its successor"
    if mode is Level.AT_MOST_ONCE:
        yield TidegateError(
            Code.LEVEL_REFUSED,
            expected="exactly-once or at-least-once: at-most-once decides nothing that holds off another driver",
            found=f"at-most-once on {found}",
            where=where,
            next_step="choose another checkpointing.mode, or a checkpointing.dir on a local disk",
        )
    if backend is Backend.HASHMAP and scheme not in _RENAMES_AT_ONCE:
        yield TidegateError(
            Code.SETTINGS_CLASH,
            expected="state.backend = rocksdb, whose state files have a name of their own for each attempt",
            found=f"state.backend = hashmap on {found}",
            where=where,
            next_step="set state.backend to rocksdb, or checkpointing.dir to a local disk or to HDFS",
        )


_RENAMES_AT_ONCE = frozenset({Scheme.HDFS, Scheme.VIEWFS})
"""State without unique names is allowed: Spark's rename is atomic, so `commits/N` is of one run, and each start
compares the files (`checkpoints.state_proof`). Where an entry of Spark's log can be overwritten, they prove nothing.
"""
