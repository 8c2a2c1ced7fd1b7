"""Which state of affairs a failpoint needs before anybody passes it, and in which phase it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from tests.campaign.footprint import Phase
from tidegate.core.failpoints import AFTER_SOMETHING, DRIVER_POINTS, TASK_POINTS, Action


class Situation(Enum):
    """How a failpoint is brought about."""

    EPOCH = "an epoch passes it"
    LATE = "an epoch passes it once there are more records than are kept"
    RESTART = "every recovery passes it"
    UNDECIDED = "recovery passes it when the run before has died with an epoch that was prepared and not decided"
    DAMAGED = "recovery passes it when an entry of Spark's log is gone"
    LEFT_OVER = "recovery passes it when an entry of Spark's log stands where none can be"
    COMES_BACK = "recovery passes it when an entry that it puts aside as torn has become whole meanwhile"
    LOSES = "a commit passes it when the sink has lost what was prepared"
    TAKEOVER = "a driver passes it that stood still while another one finished and forgot the epoch"


SITUATIONS: Mapping[str, Situation] = {
    **dict.fromkeys([*DRIVER_POINTS, *TASK_POINTS], Situation.EPOCH),
    **dict.fromkeys(
        ["run", "start", "recover.begun", "recover.listed", "recover.position", "recover.discarded"],
        Situation.RESTART,
    ),
    "gc.record": Situation.LATE,
    "recover.aborted": Situation.UNDECIDED,
    "recover.dropped": Situation.UNDECIDED,
    "heal.checksum": Situation.DAMAGED,
    "heal.entry": Situation.DAMAGED,
    "heal.aside": Situation.LEFT_OVER,
    "heal.put_back": Situation.COMES_BACK,
    "redo.fenced": Situation.LOSES,
    "redo.looked": Situation.LOSES,
    "redo.written": Situation.LOSES,
    "decision.withdrawn": Situation.TAKEOVER,
}

PASSED_BY_BOTH: frozenset[str] = frozenset({"decision", "commit", "done", "finished", "gc.clean"})
"""Points that an epoch passes, and recovery too when the run before has died before its decision."""

OF_OTHER_JOBS: frozenset[str] = frozenset({"straight", "operators", "overdue", "recover.begun"})
"""Points that the job does not pass at exactly-once: they belong to the weaker levels, to a program that changes, to an
epoch that takes too long (the small world dies there), or to a sink whose rows are visible inside their epoch."""

_PHASES: Mapping[str, Phase] = {
    **dict.fromkeys(["task.open", "task.write", "task.prepare", "compute.before"], Phase.A),
    **dict.fromkeys(["task.prepared", "compute.after", "sync.before", "sync.after", "prepared.before"], Phase.B),
    "prepared.after": Phase.C,
    **dict.fromkeys(["commits.seen.after", "decision.before"], Phase.D),
    **dict.fromkeys(["decision.after", "commit.before", "commit.after", "done.before"], Phase.E),
    **{f"redo.{step}.{when}": Phase.E for step in ("fenced", "looked", "written") for when in ("before", "after")},
    **{f"decision.withdrawn.{when}": Phase.S for when in ("before", "after")},
    **{f"{point}.{when}": Phase.S for point in ("finished", "gc.clean", "gc.record") for when in ("before", "after")},
    **dict.fromkeys(["commits.seen.before", "done.after"], Phase.S),
}


def phase_of(place: str) -> Phase:
    """The phase in which a process is that passes this place."""
    return _PHASES.get(place, Phase.R)


def situation_of(place: str) -> Situation:
    return SITUATIONS[point_of(place)]


def point_of(place: str) -> str:
    """The failpoint without `.before` or `.after`."""
    return place if place in TASK_POINTS else place.rpartition(".")[0]


COMMON_PLACES: Sequence[str] = (
    *("compute.before", "compute.after", "sync.after", "prepared.before", "prepared.after", "commits.seen.after"),
    *("decision.after", "done.before", *TASK_POINTS),
)
"""Places that an epoch of every delivery level passes: one plan for all of them strikes there."""


def exact_places() -> list[str]:
    """Every place that the job can pass at exactly-once, in the order of the registry."""
    points = [point for point in DRIVER_POINTS if point not in OF_OTHER_JOBS]
    return [f"{point}.{when}" for point in points for when in ("before", "after")] + list(TASK_POINTS)


def remote_places(*, cluster: bool = False) -> list[str]:
    """Those of them that come about with the checkpoint on another storage: no hand changes its files, and a lease
    without locks does not prove that the older runs are dead. On a cluster all sinks are file sinks: none loses its
    rows, or lists transactions that are open."""
    left_out = {"recover.dropped", "recover.discarded"}
    by_hand = {*_BY_HAND, *([Situation.LOSES, Situation.UNDECIDED] if cluster else [])}
    places = [place for place in exact_places() if situation_of(place) not in by_hand]
    return [place for place in places if point_of(place) not in left_out]


def store_places(own: Sequence[str]) -> list[str]:
    """Those that each store passes: whether it lists open transactions or loses its rows is its own affair. `own`:
    points that a job passes because of its sinks alone."""
    left_out = {*_BY_HAND, Situation.LOSES, Situation.UNDECIDED}
    places = [place for place in exact_places() if situation_of(place) not in left_out]
    return [*places, *(f"{point}.{when}" for point in own for when in ("before", "after"))]


_BY_HAND = (Situation.DAMAGED, Situation.LEFT_OVER, Situation.COMES_BACK, Situation.TAKEOVER)


def actions_at(place: str) -> list[Action]:
    """kill -9, and an error: before the effect it is not done, after it its answer is lost. In a task both."""
    if place in TASK_POINTS:
        return [Action.CRASH, Action.ERROR, *([Action.ACKLOST] if place in AFTER_SOMETHING else [])]
    return [Action.CRASH, Action.ACKLOST if place in AFTER_SOMETHING else Action.ERROR]
