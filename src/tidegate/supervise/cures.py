"""A table of the failures that a restart can cure.

After any other failure there is no restart, because it would fail again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from tidegate.core.errors import Code
from tidegate.core.next_steps import Remedy


class Cure(Enum):
    """Whether a restart of the job can help."""

    RESTART = "the cause may be gone by then, and nothing is lost"
    RESTART_FOR_A_MINUTE = "the holder may be a dying driver of this job; after that time it is another process"
    RESTART_ONCE_IT_HAS_RUN = "in a job that has run the cause came from outside; at a first start it is a mistake"
    NONE = "the next start would fail in the same way"


def cure_of(codes: Sequence[Code]) -> Cure:
    """The worst cure of several errors. Without a code: the cure for an error of the program itself."""
    cures = [SURROUNDINGS.get(code) or BY_REMEDY[code.remedy] for code in codes]
    return max(cures, key=_WORSE.index, default=Cure.RESTART_ONCE_IT_HAS_RUN)


def can_restart(codes: Sequence[Code], *, has_run: bool, seconds_taken: float = 0.0) -> bool:
    """True if a failure with these codes is followed by a restart, as far as the restart strategy allows one.
    `seconds_taken`: for how long every start has found the job in use."""
    match cure_of(codes):
        case Cure.RESTART:
            return True
        case Cure.RESTART_FOR_A_MINUTE:
            return seconds_taken < _A_MINUTE_SECONDS
        case Cure.RESTART_ONCE_IT_HAS_RUN:
            return has_run
        case Cure.NONE:
            return False


def refuses(code: Code) -> bool:
    """True if the job refused to start because rows would be lost or repeated, or because the program or its settings
    do not match the job or its savepoint."""
    return code.remedy is Remedy.DECIDE or code in _DOES_NOT_FIT


_DOES_NOT_FIT = frozenset(
    {
        Code.SOURCES_CHANGED,
        Code.STATE_FORMAT,
        Code.STATE_MISMATCH,
        Code.LEVEL_REFUSED,
        Code.RESTORE_OPERATORS,
        Code.RESTORE_PARTITIONS,
    }
)
"""Problems to fix in the program. A restart does not cure them in any case."""

BY_REMEDY: Mapping[Remedy, Cure] = {
    Remedy.PROGRAM: Cure.NONE,
    Remedy.SURROUNDINGS: Cure.RESTART_ONCE_IT_HAS_RUN,
    Remedy.RESTART: Cure.RESTART,
    Remedy.DECIDE: Cure.NONE,
}
"""The cure of every code without an entry of its own below."""

SURROUNDINGS: Mapping[Code, Cure] = {
    Code.KAFKA_UNREACHABLE: Cure.RESTART,
    Code.SINK_UNAVAILABLE: Cure.RESTART,
    Code.DRIVER_ALIVE: Cure.RESTART_FOR_A_MINUTE,
    Code.STORAGE_FULL: Cure.RESTART_ONCE_IT_HAS_RUN,
    Code.STORAGE_UNUSABLE: Cure.RESTART_ONCE_IT_HAS_RUN,
    Code.SINK_UNUSABLE: Cure.RESTART_ONCE_IT_HAS_RUN,
    Code.APPLICATION_ENDED: Cure.RESTART_ONCE_IT_HAS_RUN,
    Code.PROGRAM_FAILED: Cure.RESTART_ONCE_IT_HAS_RUN,
    Code.OPTION_UNREADABLE: Cure.NONE,
    Code.JAVA_MISSING: Cure.NONE,
    Code.EXTRA_MISSING: Cure.NONE,
    Code.USER_UNNAMED: Cure.NONE,
    Code.KAFKA_TOPIC_MISSING: Cure.NONE,
    Code.SUPERVISOR_ALIVE: Cure.NONE,
    Code.SINK_OUT_OF_REACH: Cure.NONE,
    Code.SOURCE_OUT_OF_REACH: Cure.NONE,
    Code.BROKER_REFUSED: Cure.NONE,
    Code.BROKER_FAILED: Cure.NONE,
    Code.JARS_UNAVAILABLE: Cure.NONE,
    Code.FILE_NAME: Cure.NONE,
    Code.PAGE_UNUSABLE: Cure.NONE,
}
"""Problems of the environment: some end by themselves, others need an action. Each code has its entry."""

ENDS_THE_DRIVER = frozenset(
    {
        Code.LEASE_LOST,
        Code.RUN_SUPERSEDED,
        Code.GENERATION_SEALED,
        Code.STORAGE_UNUSABLE,
        Code.EPOCH_STUCK,
        Code.PROCESS_SPENT,
    }
)
"""Failures of one query after which no other run may follow in the same process.

Another process may hold the job by now, and only a new process can take the locks. Or a sync has failed, and only data
on the disk can be trusted.
"""

_A_MINUTE_SECONDS = 60.0
"""A driver without a supervisor has ended within ten seconds, and a killed JVM within three."""

_WORSE = (Cure.RESTART, Cure.RESTART_FOR_A_MINUTE, Cure.RESTART_ONCE_IT_HAS_RUN, Cure.NONE)
