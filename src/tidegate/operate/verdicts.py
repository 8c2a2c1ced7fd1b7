"""The permitted acts on a waiting transaction: a pure function of the ledger, the sink and the living processes."""

from __future__ import annotations

from enum import Enum


class Named(Enum):
    """The state of a transaction in the ledger."""

    DECIDED = "decided"  # the decided record of an unfinished epoch names it
    PREPARED = "prepared"  # a prepared record names it, and its epoch is undecided
    NOT_CHOSEN = "not chosen"  # a prepared record names it, and another record was decided
    NOWHERE = "no record"  # its task has not handed it over, or its record is gone
    ANOTHER_JOB = "another job"  # it belongs to an earlier generation of this job, or to another job with the same name
    UNREADABLE = "unreadable"  # the ledger does not show which record was decided


class Seen(Enum):
    """The state of a transaction in the sink."""

    OPEN = "open"  # readers may wait for it
    STAGED = "staged"  # its rows are staged beside the target; nothing is open
    COMMITTED = "committed"
    GONE = "gone"  # aborted by any process
    ANOTHER_TIMELINE = "another timeline"  # the same epoch was committed with other rows
    NOT_KNOWN = "not known"  # the sink is unreachable, or cannot tell


class Runs(Enum):
    """Whether a process runs that may still decide an epoch of the job: its driver, or a JVM that outlives the
    driver."""

    YES = "yes"
    NO = "no"

    @classmethod
    def of(cls, lives: object) -> Runs:
        """From the job's locks: true if one is held."""
        return cls.YES if lives else cls.NO


class Verdict(Enum):
    """The correct act for a transaction."""

    COMMIT = "commit"
    ABORT = "abort"
    IN_USE = "in use"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


class Act(Enum):
    """The requested act."""

    COMMIT = "commit"
    ABORT = "abort"


class Permission(Enum):
    """Whether the act is permitted."""

    GIVEN = "given"
    FORCED_ONLY = "only with the name typed out behind --force"
    NEVER = "never"


def verdict_of(named: Named, seen: Seen, runs: Runs) -> Verdict:
    """The correct act.

    A decided transaction is committed, even if the sink has lost it: it is written again from the journal. Only a
    transaction that no decided record names is aborted, and only if no living run may still decide. Two cases need a
    decision by the operator: rows that are visible without a decision, and an epoch that was committed with other rows.
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
    """Whether `act` is permitted: if the verdict agrees, or by force; never while a driver is alive.

    A transaction without a prepared record cannot be committed at all: it may be incomplete. The same holds for an
    epoch whose rows in the sink differ.
    """
    if act.value == verdict.value:
        return Permission.GIVEN
    if verdict is Verdict.IN_USE:
        return Permission.NEVER
    if act is Act.COMMIT and (named is not Named.PREPARED or verdict is Verdict.UNKNOWN):
        return Permission.NEVER
    return Permission.FORCED_ONLY


def price(act: Act, named: Named) -> str:
    """The rows that are lost or repeated if a command is forced against the verdict, as text for the message."""
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
            return "if it was decided, its rows are lost unless the ledger is repaired and they are written again"
