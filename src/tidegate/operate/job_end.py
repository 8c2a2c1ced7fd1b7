"""How a job ends: what it is called then, what is answered to requests, and what follows.

Three tables, each total. The driver decides by the first two when its job ends, and keeps in the beat what was wrong
(`Wrong`). Where a driver has ended without an answer, the command that asked decides by the third. `docs/operate.md`
shows the tables as this module prints them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeGuard

from tidegate.core.errors import Code, TidegateError
from tidegate.core.matrix import Matrix
from tidegate.operate.beat import JobState, Wrong
from tidegate.operate.control import Outcome
from tidegate.operate.endings import Ending


class Wanted(Enum):
    """What was wanted of a job, when it ends. `drain of before`: an earlier start was asked to drain it; this start
    resumes that drain, and was asked for nothing itself."""

    NOTHING = "nothing"
    STOP = "stop"
    DRAIN = "drain"
    DRAIN_OF_BEFORE = "drain, an earlier start"
    CANCEL = "cancel"
    CAUGHT_UP_DRAIN = "until caught up, then drain"
    CAUGHT_UP_DRAIN_OF_BEFORE = "until caught up; drain, an earlier start"
    CAUGHT_UP_CANCEL = "until caught up; drain, an earlier start; then cancel"


def wanted(ending: Ending, *, asked: bool, catches_up_with_a_drain: bool) -> Wanted:
    """What was wanted, by the strongest thing that anybody has asked for. `asked`: this start, and not one before.
    `catches_up_with_a_drain`: it was started until it has caught up, and found the drain of an earlier start."""
    if catches_up_with_a_drain:
        if ending is Ending.CANCEL:
            return Wanted.CAUGHT_UP_CANCEL
        return Wanted.CAUGHT_UP_DRAIN if asked else Wanted.CAUGHT_UP_DRAIN_OF_BEFORE
    if ending is Ending.DRAIN and not asked:
        return Wanted.DRAIN_OF_BEFORE
    return _WANTED[ending]


_WANTED = {
    Ending.NONE: Wanted.NOTHING,
    Ending.STOP: Wanted.STOP,
    Ending.DRAIN: Wanted.DRAIN,
    Ending.CANCEL: Wanted.CANCEL,
}


def wrong_of(error: BaseException | None, *, is_the_last_savepoint: bool) -> Wrong:
    """What kind of thing was wrong. `is_the_last_savepoint`: the savepoint of the job's end, and nothing else."""
    if error is None:
        return Wrong.NOTHING
    if isinstance(error, KeyboardInterrupt):  # the second Ctrl-C of a start: it comes where a first one has asked
        return Wrong.INTERRUPTED
    if is_the_last_savepoint:
        return Wrong.SAVEPOINT
    return Wrong.SINK if is_of_an_unready_sink(error) else Wrong.OTHER


def is_of_an_unready_sink(error: BaseException) -> TypeGuard[TidegateError]:
    """Whether all that is wrong is a sink that does not take a decided epoch yet."""
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
"""What a job is called that has ended. A sink that does not take a decided epoch is no failure of a job that was asked
to stop: the next start commits it. At a cancel it is not even an error (`is_left_to_the_next_start`), unless it was
one before the cancel came."""


class Left(Enum):
    """What a job has left behind, when it has ended."""

    NOTHING = "nothing"
    EPOCH = "a decided epoch, which the next start commits"
    THREAD = "a thread that nothing has ended"


def is_left_to_the_next_start(error: BaseException, ending: Ending) -> TypeGuard[TidegateError]:
    """Whether this is no error of the job: a cancel waits for no sink."""
    return ending is Ending.CANCEL and is_of_an_unready_sink(error)


def gives_up_its_checkpoints(ending: Ending, error: BaseException | None, left: Callable[[], Left]) -> bool:
    """Whether a canceled job has left nothing that a next start would have to finish; `error` is also that of the
    savepoint that it was to end with. Its threads are looked at, by `left`, only where the rest is so."""
    return ending is Ending.CANCEL and error is None and left() is Left.NOTHING


def is_final(error: BaseException | None, *, asked: bool, drain_goes_on: bool) -> bool:
    """Whether no supervisor starts the job again: it has ended well, or as it was asked to."""
    return error is None or (asked and not drain_goes_on)


def leaves_a_drain(ending: Ending, error: BaseException | None, *, asked: bool, stands: bool) -> bool:
    """Whether the job has failed in a drain with which its next start goes on; `stands`: it has begun, and is not
    through. Not where it waits for a sink as long as whoever asked for it has allowed: then it has ended as it was
    asked to."""
    if error is None or ending is not Ending.DRAIN or not stands:
        return False
    return not (asked and is_of_an_unready_sink(error))


class Wish(Enum):
    """What was asked of a job that has ended, and what of it is known to be there."""

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
"""What the driver answers when its job has ended. A request for a savepoint of the end is answered with what kept
the savepoint from being there; no other request is."""


class LastSeen(Enum):
    """How a job was when its driver last said so."""

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
    """By what the last beat says."""
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
"""What is answered for a driver that has ended without an answer. A savepoint is whole or is not there, and the folder
tells which; a driver that died while its job ran had not ended it, so nothing is lost."""


def markdown_tables() -> str:
    """All tables of this module, for the documentation."""
    return "\n\n".join(
        [
            STATE.markdown("asked for \\ wrong"),
            "What its driver answers then to each request:",
            ANSWER.markdown("asked for \\ wrong"),
            "What the command says where the driver has ended without an answer, by the state that it told last:",
            AFTERWARDS.markdown("asked for \\ the job was"),
        ]
    )
