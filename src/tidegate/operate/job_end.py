"""How a job ends: its final state, the answers to open requests, and the next actions.

Three tables, each complete. The driver uses the first two when its job ends, and stores the kind of problem (`Wrong`)
in the beat. If a driver has ended without an answer, the command that sent the request uses the third.
`docs/operate.md` shows the tables as this module prints them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeGuard

from tidegate.core.errors import Code, TidegateError
from tidegate.core.matrix import Matrix
from tidegate.operate.beat import JobState, Wrong
from tidegate.operate.control import Outcome
from tidegate.operate.endings import AskedOf, EndMode


class Wanted(Enum):
    """The request that was in force when a job ended. `drain of before`: an earlier start was requested to drain; this
    start resumes that drain and received no request itself."""

    NOTHING = "nothing"
    STOP = "stop"
    DRAIN = "drain"
    DRAIN_OF_BEFORE = "drain, an earlier start"
    CANCEL = "cancel"
    CAUGHT_UP_DRAIN = "until caught up, then drain"
    CAUGHT_UP_DRAIN_OF_BEFORE = "until caught up; drain, an earlier start"
    CAUGHT_UP_CANCEL = "until caught up; drain, an earlier start; then cancel"


def wanted(ending: EndMode, asked_of: AskedOf) -> Wanted:
    """The strongest request to end the job."""
    if ending is EndMode.DRAIN and asked_of is AskedOf.ANOTHER:
        return Wanted.DRAIN_OF_BEFORE
    return _WANTED[ending]


def wanted_until_caught_up(ending: EndMode, asked_of: AskedOf) -> Wanted:
    """The strongest request to a start that runs until it has caught up, and found the unfinished drain of an earlier
    start.
    """
    if ending is EndMode.CANCEL:
        return Wanted.CAUGHT_UP_CANCEL
    return Wanted.CAUGHT_UP_DRAIN if asked_of is AskedOf.THIS_START else Wanted.CAUGHT_UP_DRAIN_OF_BEFORE


_WANTED = {
    EndMode.NONE: Wanted.NOTHING,
    EndMode.STOP: Wanted.STOP,
    EndMode.DRAIN: Wanted.DRAIN,
    EndMode.CANCEL: Wanted.CANCEL,
}


def wrong_of(error: BaseException | None) -> Wrong:
    """The kind of problem."""
    if error is None:
        return Wrong.NOTHING
    if isinstance(error, KeyboardInterrupt):  # a second Ctrl-C: the first one was a request to end
        return Wrong.INTERRUPTED
    return Wrong.SINK if is_of_an_unready_sink(error) else Wrong.OTHER


def wrong_of_the_last_savepoint(error: BaseException | None) -> Wrong:
    """The kind of problem if only the savepoint of the job's end failed."""
    found = wrong_of(error)
    return found if found in (Wrong.NOTHING, Wrong.INTERRUPTED) else Wrong.SAVEPOINT


def is_of_an_unready_sink(error: BaseException) -> TypeGuard[TidegateError]:
    """True if the only problem is a sink that does not accept a decided epoch yet."""
    return isinstance(error, TidegateError) and error.catalogue_entry is Code.SINK_UNAVAILABLE


_FINISHED, _STOPPED, _CANCELED, _FAILED = (
    JobState.FINISHED,
    JobState.STOPPED,
    JobState.CANCELED,
    JobState.FAILED,
)

STATE = Matrix(
    Wanted,
    Wrong,
    {
        #                                  nothing    sink      savepoint  interrupted  other
        Wanted.NOTHING: (_FINISHED, _FAILED, _FINISHED, _STOPPED, _FAILED),
        Wanted.STOP: (_STOPPED, _STOPPED, _STOPPED, _STOPPED, _FAILED),
        Wanted.DRAIN: (_STOPPED, _STOPPED, _STOPPED, _STOPPED, _FAILED),
        Wanted.DRAIN_OF_BEFORE: (_STOPPED, _FAILED, _STOPPED, _STOPPED, _FAILED),
        Wanted.CANCEL: (_CANCELED, _FAILED, _CANCELED, _STOPPED, _FAILED),
        Wanted.CAUGHT_UP_DRAIN: (_FINISHED, _STOPPED, _FINISHED, _STOPPED, _FAILED),
        Wanted.CAUGHT_UP_DRAIN_OF_BEFORE: (_FINISHED, _FAILED, _FINISHED, _STOPPED, _FAILED),
        Wanted.CAUGHT_UP_CANCEL: (_FINISHED, _FAILED, _FINISHED, _STOPPED, _FAILED),
    },
)
"""The state of a job that has ended.

If a stop was requested, a sink that does not accept a decided epoch is no failure: the next start commits the epoch. At
a cancel it is not even an error (`is_left_to_the_next_start`), unless the error came before the cancel.
"""


class Left(Enum):
    """The things that a job has left behind at its end."""

    NOTHING = "nothing"
    EPOCH = "a decided epoch, which the next start commits"
    THREAD = "a thread that could not be stopped"


def is_left_to_the_next_start(error: BaseException, ending: EndMode) -> TypeGuard[TidegateError]:
    """True if this is not an error of the job: a cancel waits for no sink."""
    return ending is EndMode.CANCEL and is_of_an_unready_sink(error)


def gives_up_its_checkpoints(ending: EndMode, error: BaseException | None, left: Callable[[], Left]) -> bool:
    """True if a canceled job has left no work for a next start. `error`: also the error of its last savepoint. `left`:
    called only if all other conditions hold; it inspects the job's threads."""
    return ending is EndMode.CANCEL and error is None and left() is Left.NOTHING


def is_final(error: BaseException | None, *, asked: bool, drain_goes_on: bool) -> bool:
    """True if no supervisor restarts the job: it ended well, or as requested."""
    return error is None or (asked and not drain_goes_on)


def leaves_a_drain(ending: EndMode, asked_of: AskedOf, error: BaseException | None, *, stands: bool) -> bool:
    """True if the job failed during a drain that the next start resumes. `stands`: the drain has begun and is not
    complete.

    False if the drain waited for a sink for its full time limit: the job has then ended as requested.
    """
    if error is None or ending is not EndMode.DRAIN or not stands:
        return False
    return not (asked_of is AskedOf.THIS_START and is_of_an_unready_sink(error))


class Wish(Enum):
    """The request to a job that has ended, and the part of it that is complete."""

    CHECKPOINT_REACHED = "checkpoint, and the epochs are done"
    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    STOP = "stop"
    CANCEL = "cancel"
    DRAINED = "drain, and it is drained"
    NOT_DRAINED = "drain, and it is not drained"
    SAVED = "end with a savepoint, which is whole"
    NOT_SAVED = "end with a savepoint, which is not there"
    NOT_HEARD = "end with a savepoint, and it had ended before it was asked"


_DONE, _PENDING, _LOST, _NOT_RUNNING, _UNKNOWN = (
    Outcome.DONE,
    Outcome.PENDING,
    Outcome.FAILED,
    Outcome.NOT_RUNNING,
    Outcome.UNKNOWN,
)

ANSWER = Matrix(
    Wish,
    Wrong,
    {
        #                     nothing  sink    savepoint interrupted other
        Wish.CHECKPOINT_REACHED: (_DONE, _DONE, _DONE, _DONE, _DONE),
        Wish.CHECKPOINT: (_LOST, _PENDING, _LOST, _LOST, _LOST),
        Wish.SAVEPOINT: (_LOST, _LOST, _LOST, _LOST, _LOST),
        Wish.STOP: (_DONE, _PENDING, _DONE, _LOST, _LOST),
        Wish.CANCEL: (_DONE, _PENDING, _DONE, _LOST, _LOST),
        Wish.DRAINED: (_DONE, _PENDING, _DONE, _LOST, _LOST),
        Wish.NOT_DRAINED: (_LOST, _PENDING, _LOST, _LOST, _LOST),
        Wish.SAVED: (_DONE, _LOST, _LOST, _LOST, _LOST),
        Wish.NOT_SAVED: (_LOST, _PENDING, _LOST, _LOST, _LOST),
        Wish.NOT_HEARD: (_LOST, _LOST, _LOST, _LOST, _LOST),
    },
)
"""The driver's answer when its job has ended. A missing savepoint affects only the requests for a savepoint of the
end."""


class LastSeen(Enum):
    """The state of a job as its driver reported it last."""

    DIED = "it ran"
    FINISHED = "FINISHED"
    FINISHED_BUT = "FINISHED, with an error"
    STOPPED = "STOPPED"
    STOPPED_WAITING = "STOPPED, a sink is not ready"
    STOPPED_BUT = "STOPPED, with another error"
    CANCELED = "CANCELED"
    CANCELED_BUT = "CANCELED, with an error"
    FAILED = "FAILED"


def last_seen(state: JobState, wrong: Wrong) -> LastSeen:
    """Read from the last beat."""
    match state:
        case JobState.RUNNING | JobState.RESTARTING:
            return LastSeen.DIED
        case JobState.FINISHED:
            return LastSeen.FINISHED if wrong is Wrong.NOTHING else LastSeen.FINISHED_BUT
        case JobState.CANCELED:
            return LastSeen.CANCELED if wrong is Wrong.NOTHING else LastSeen.CANCELED_BUT
        case JobState.FAILED:
            return LastSeen.FAILED
        case JobState.STOPPED:
            other = LastSeen.STOPPED_WAITING if wrong is Wrong.SINK else LastSeen.STOPPED_BUT
            return LastSeen.STOPPED if wrong is Wrong.NOTHING else other


AFTERWARDS = Matrix(
    Wish,
    LastSeen,
    {
        # died; finished, with an error; stopped, a sink is not ready, another error; canceled, with an error; failed
        Wish.CHECKPOINT_REACHED: (_DONE,) * 9,
        Wish.CHECKPOINT: (
            *(_UNKNOWN, _DONE, _NOT_RUNNING, _DONE, _NOT_RUNNING, _NOT_RUNNING, _NOT_RUNNING, _NOT_RUNNING, _LOST),
        ),
        Wish.SAVEPOINT: (_UNKNOWN,) * 9,
        Wish.STOP: (_LOST, _DONE, _NOT_RUNNING, _DONE, _PENDING, _LOST, _NOT_RUNNING, _NOT_RUNNING, _LOST),
        Wish.CANCEL: (
            *(_LOST, _NOT_RUNNING, _NOT_RUNNING, _NOT_RUNNING, _NOT_RUNNING, _NOT_RUNNING, _DONE, _NOT_RUNNING, _LOST),
        ),
        Wish.DRAINED: (_DONE,) * 9,
        Wish.NOT_DRAINED: (
            *(_LOST, _NOT_RUNNING, _NOT_RUNNING, _NOT_RUNNING, _PENDING, _LOST, _NOT_RUNNING, _NOT_RUNNING, _LOST),
        ),
        Wish.SAVED: (_LOST, _DONE, _LOST, _DONE, _PENDING, _LOST, _DONE, _LOST, _LOST),
        Wish.NOT_SAVED: (_LOST, _LOST, _LOST, _LOST, _PENDING, _LOST, _LOST, _LOST, _LOST),
        Wish.NOT_HEARD: (_LOST,) * 9,
    },
)
"""The answer for a driver that ended without an answer.

A savepoint is complete or absent, and its folder shows which. A driver that died while its job ran had not ended the
job, so nothing is lost.
"""


def markdown_tables() -> str:
    """All tables of this module, for the documentation."""
    return "\n\n".join(
        [
            STATE.markdown("request \\ problem"),
            "The driver's answer to each request:",
            ANSWER.markdown("request \\ problem"),
            "The command's answer if the driver ended without one, by the last state that the driver reported:",
            AFTERWARDS.markdown("request \\ last state"),
        ]
    )
