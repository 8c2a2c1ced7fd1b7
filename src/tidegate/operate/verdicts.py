"""What may be done with a transaction that waits: a pure function of the ledger, the sink and the processes that are
alive."""

from __future__ import annotations

from enum import Enum


class Named(Enum):
    """What the ledger says of a transaction."""

    DECIDED = "decided"  # the decided record of an unfinished epoch names it
    PREPARED = "prepared"  # a prepared record names it, and nothing is decided of its epoch
    NOT_CHOSEN = "not chosen"  # a prepared record names it, and another one was decided
    NOWHERE = "no record"  # its task has not handed it over, or its record is gone
    ANOTHER_JOB = "another job"  # of an older life of this job, or of one of the same name elsewhere
    UNREADABLE = "unreadable"  # the ledger does not say which record was decided


class Seen(Enum):
    """What the sink says of a transaction."""

    OPEN = "open"  # readers may wait behind it
    STAGED = "staged"  # its rows lie beside the target; nothing is open in it
    COMMITTED = "committed"
    GONE = "gone"  # aborted, by whomever
    ANOTHER_TIMELINE = "another timeline"  # the same epoch was committed with other rows
    NOT_KNOWN = "not known"  # the sink was not reached, or cannot tell


class Runs(Enum):
    """Whether a process runs that may still decide an epoch of the job: its driver, or a JVM that outlives one."""

    YES = "yes"
    NO = "no"

    @classmethod
    def of(cls, lives: object) -> Runs:
        """What was found of the job's locks: true where one is held."""
        return cls.YES if lives else cls.NO


class Verdict(Enum):
    """What is right for a transaction."""

    COMMIT = "commit"
    ABORT = "abort"
    IN_USE = "in use"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


class Act(Enum):
    """How a transaction is to end."""

    COMMIT = "commit"
    ABORT = "abort"


class Permission(Enum):
    """Whether it is done."""

    GIVEN = "given"
    FORCED_ONLY = "only with the name typed out behind --force"
    NEVER = "never"


def verdict_of(named: Named, seen: Seen, runs: Runs) -> Verdict:
    """What is right.

    Decided means committed, whatever the sink has of it by now: what it has lost is written again from the journal.
    Only what no decided record names is aborted, and only when no run is alive that may still decide. Rows that are
    visible without a decision, and an epoch that was committed with other rows, need a decision by the operator.
    """
    match named:
        case Named.ANOTHER_JOB:
            return Verdict.FOREIGN
        case Named.UNREADABLE:
            return Verdict.UNKNOWN
        case _ if runs is Runs.YES:
            return Verdict.IN_USE
        case _ if seen is Seen.ANOTHER_TIMELINE:
            return Verdict.UNKNOWN
        case Named.DECIDED:
            return Verdict.COMMIT
        case Named.PREPARED | Named.NOT_CHOSEN | Named.NOWHERE:
            return Verdict.UNKNOWN if seen is Seen.COMMITTED else Verdict.ABORT


def permission(act: Act, named: Named, verdict: Verdict) -> Permission:
    """Whether `act` is done: as the verdict has it; against it only by force; never beside a driver that is alive.

    What no prepared record names cannot be committed at all: it is unknown whether it is complete. Nor can an epoch
    that the sink has with other rows.
    """
    if act.value == verdict.value:
        return Permission.GIVEN
    if verdict is Verdict.IN_USE:
        return Permission.NEVER
    if act is Act.COMMIT and (named is not Named.PREPARED or verdict is Verdict.UNKNOWN):
        return Permission.NEVER
    return Permission.FORCED_ONLY


def price(act: Act, named: Named) -> str:
    """What is lost or repeated when `act` is done against the verdict."""
    match act, named:
        case Act.COMMIT, _:
            return (
                "its rows become visible, and the epoch's input comes again: rows are repeated. The sink is then ahead"
                " of the checkpoint, so the job's next start is refused (TG-SINK-AHEAD)"
            )
        case Act.ABORT, Named.DECIDED:
            return (
                "no reader sees its rows until the next start writes them again from the journal; without that journal"
                " they are lost"
            )
        case Act.ABORT, Named.ANOTHER_JOB:
            return "the rows of another job's transaction are lost, unless that job resumes and writes them again"
        case Act.ABORT, _:
            return "if it was decided, its rows are lost unless the ledger is put in order and they are written again"
